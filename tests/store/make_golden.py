"""Write tests/store/golden/<revision>.db: a small database of a revision with a row in every table.

Run once when a revision is added: `python tests/store/make_golden.py 0002`. Old golden files are never made again.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from adaptd.store.migrate import upgrade

GOLDEN = Path(__file__).parent / "golden"
NOW = "2026-11-16 12:00:00.000000"
ROWS = {
    "domains": [
        {"id": 1, "name": "source", "position": 0, "state": "done", "images": 2, "created_at": NOW, "updated_at": NOW},
        {"id": 2, "name": "night", "state": "queued", "images": 1, "quarantined": 1, "created_at": NOW, "updated_at": NOW},
    ],
    "images": [
        {"id": n, "domain_id": 1 + n // 3, "sha256": str(n) * 64, "size_bytes": n, "name": f"{n}.png", "split": "train"}
        | {"state": "accepted", "label": "dog", "delivery": 1}
        for n in (1, 2, 3)
    ],
    "drops": [
        {
            "id": 1,
            "domain_id": 2,
            "number": 1,
            "path": "domains/2/1",
            "origin": "/inbox/night",
            "fingerprint": "0" * 64,
            "files": 2,
            "size_bytes": 9,
        }
        | {"delivery": 1, "accepted": 1, "claimed_at": NOW}
    ],
    "pauses": [{"scope": "night", "reason": "by hand", "at": NOW}],
    "quarantine": [{"id": 1, "domain_id": 2, "name": "x", "reason": "empty", "detail": "0 bytes", "created_at": NOW}],
    "episodes": [
        {"id": 1, "number": 0, "domain_id": 1, "delivery": 1, "method": "supervised", "seed": 0, "state": "done", "config": "{}"}
        | {"config_hash": "0" * 64, "phase": "done", "step": 9, "steps": 9, "report": "{}", "created_at": NOW}
    ],
    "checkpoints": [{"id": 1, "episode_id": 1, "step": 5, "path": "p", "sha256": "0" * 64, "created_at": NOW}],
    "curves": [{"episode_id": 1, "step": 5, "live": '{"losses": {"source": 0.5}}'}],
    "memories": [{"image_id": 3, "domain_id": 2, "pseudo_label": "dog", "confidence": 0.75}],
    "versions": [
        {"version": 1, "episode_id": 1, "state": "promoted", "classes": '["cat", "dog"]', "weights_path": "w"}
        | {"weights_sha256": "0" * 64, "created_at": NOW, "promoted_at": NOW}
        | {
            "gate_passed": True,
            "gate_reasons": '["It is the first."]',
            "gate_figures": "{}",
            "int8_passed": False,
            "int8_reasons": "[]",
        }
    ],
    "labels": [{"image_id": 3, "label": "cat", "purpose": "measure", "labelled_at": NOW}],
    "accuracies": [{"version": 1, "domain_id": 1, "kind": "measured", "value": 0.5, "n": 2, "correct": 1}],
    "events": [{"id": 1, "at": NOW, "kind": "made", "message": "by make_golden", "details": "{}"}],
}


def make(revision: str) -> Path:
    """One golden file."""
    file = GOLDEN / f"{revision}.db"
    if file.exists():
        sys.exit(f"{file} is there: golden files are never made again")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute("VACUUM")
    upgrade(f"sqlite:///{file}", GOLDEN, revision)
    with closing(sqlite3.connect(file)) as connection:
        for table, rows in ROWS.items():
            for row in rows:
                marks = ", ".join(f":{name}" for name in row)
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)
        connection.commit()
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
    return file


if __name__ == "__main__":
    print(make(sys.argv[1]))  # noqa: T201
