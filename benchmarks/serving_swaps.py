"""What clients notice of swaps: latency at 32 clients while a new version appears every few seconds, against none appearing.

One command: `python -m benchmarks.serving_swaps [--models lenet,resnet18] [--rounds N] [--seconds S] [--every S]`. Quiet
and busy whiles alternate on one server; prints medians, writes benchmarks/out/serving_swaps.json. The load ends with an
error where any request fails. Versions are hard links of the first under the next integer, with cards of their own:
loading, hashing and warming up cost what they cost in earnest.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
from pathlib import Path

from adaptd.publishing.card import CARD_FILE, read_card
from benchmarks.serving import OUT, Contestant, export, make_project, make_request, measure, running

GOAL = 2.0
CLIENTS = 32


def publish_next(folder: Path) -> int:
    """The newest version once more, as the next integer, by one rename."""
    newest = max(int(place.name) for place in folder.iterdir())
    staged = folder.parent.parent / "staged"
    staged.mkdir()
    os.link(folder / str(newest) / "model.onnx", staged / "model.onnx")
    card = read_card(folder / str(newest)).model_copy(update={"version": newest + 1})
    (staged / CARD_FILE).write_text(card.to_text())
    staged.rename(folder / str(newest + 1))
    return newest + 1


def measure_busy(server: Contestant, request: Path, folder: Path, seconds: float, every: float) -> dict[str, float]:
    """Load while versions appear."""
    end = threading.Event()

    def publish() -> None:
        while not end.wait(every):
            publish_next(folder)

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        return measure(server, request, CLIENTS, 1, seconds)
    finally:
        end.set()
        publisher.join()


def run_model(name: str, rounds: int, seconds: float, every: float) -> dict[str, list[dict[str, float]]]:
    """Quiet, busy, quiet, busy."""
    rows: dict[str, list[dict[str, float]]] = {"quiet": [], "swapping": []}
    with tempfile.TemporaryDirectory() as place:
        model, project, request = Path(place) / "model.onnx", Path(place) / "project", Path(place) / "adaptd.request"
        export(name, model)
        make_project(project, name, model.read_bytes())
        request.write_bytes(make_request("adaptd", name, 1))
        with running(project, model, None) as (server,):
            for _ in range(rounds):
                rows["quiet"].append(measure(server, request, CLIENTS, 1, seconds))
                rows["swapping"].append(measure_busy(server, request, project / "models" / name, seconds, every))
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="lenet,resnet18")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--every", type=float, default=5.0)
    args = parser.parse_args()
    found = {name: run_model(name, args.rounds, args.seconds, args.every) for name in args.models.split(",")}
    for name, rows in found.items():
        for title, values in rows.items():
            median = {key: statistics.median(row[key] for row in values) for key in values[0]}
            times = f"p50 {median['p50_ms']:7.1f} ms   p99 {median['p99_ms']:7.1f} ms"
            print(f"{name:10} {title:10} {median['images_per_second']:8.0f} img/s   {times}")
        ratio = statistics.median(
            busy["p99_ms"] / quiet["p99_ms"] for quiet, busy in zip(rows["quiet"], rows["swapping"], strict=True)
        )
        print(f"{name:10} p99 while swapping is {ratio:.2f} of p99 without   (goal ≤ {GOAL})")
    OUT.mkdir(exist_ok=True)
    (OUT / "serving_swaps.json").write_text(json.dumps({"arguments": vars(args), "rows": found}, indent=2))


if __name__ == "__main__":
    main()
