"""`adaptd status` against `python -c "import sqlalchemy, typer"`, with 1,000,000 images and 200 domains in the store.

One command: `python -m benchmarks.status_time [--images N]`. Prints a table and writes benchmarks/out/status_time.json.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from adaptd.records import DomainState, NewImage
from adaptd.store import Store

OUT = Path(__file__).parent / "out"
GOAL = 2.0


def fill(project: Path, images: int, domains: int) -> None:
    """A store as large as it gets."""
    with Store(f"sqlite:///{project}/state/adaptd.db") as store:
        for number in range(domains):
            with store.writing() as tx:
                domain = tx.domains.add(f"camera-{number}", DomainState.DONE)
                tx.images.add_many(domain.id, [NewImage(f"{n:064x}", 1, f"{n}.png") for n in range(images // domains)])


def seconds(command: list[str]) -> float:
    """How long a command takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--domains", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "shop"
        adaptd = [str(Path(sys.executable).with_name("adaptd")), "--project", str(project)]
        subprocess.run([adaptd[0], "init", str(project), "--weights", "none"], check=True, capture_output=True)
        fill(project, args.images, args.domains)
        commands = {
            "import sqlalchemy, typer": [sys.executable, "-c", "import sqlalchemy, typer"],
            "adaptd status": [*adaptd, "status"],
            "adaptd status --json": [*adaptd, "status", "--json"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(args.rounds):
            for name, command in commands.items():
                times[name].append(seconds(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians["import sqlalchemy, typer"]
    for name, median in medians.items():
        print(f"{name:26} median {median * 1000:6.0f} ms   ratio {median / base:.2f}   (goal ≤ {GOAL})")
    OUT.mkdir(exist_ok=True)
    (OUT / "status_time.json").write_text(json.dumps({"arguments": vars(args), "seconds": times, "median": medians}, indent=2))


if __name__ == "__main__":
    main()
