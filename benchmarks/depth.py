"""What training the last stage alone costs and saves. `python -m benchmarks.depth --pixels 96`.

Office-Caltech (Amazon → the other domains, one episode each), MobileNetV2 with ImageNet features, one source model for both:
`all` and `last-stage` in turns, domain by domain, so that a slow minute hits both. Prints ACC, the accuracy on each domain at the
end, and seconds with the making of activations. Each cell is written when it is finished: the same command goes on where it
stopped. Labels choose nothing. For a short run: `--epochs 2 --domains amazon,webcam`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from adaptd.bench.cell import run_cell, train_source
from adaptd.bench.recipes import Recipe, data_folder, load_folders
from adaptd.project.layers import resolve_settings
from adaptd.project.settings import TRAINED_SETTINGS, Settings

DEPTHS = ("all", "last-stage")
DOMAINS = "amazon,webcam,caltech"


def load(data: Path, out: Path, pixels: int, domains: list[str]) -> Recipe:
    """The domains at a size."""
    weights = data / "weights" / "mobilenet_v2_imagenet_features.safetensors"
    settings = TRAINED_SETTINGS | {"model.backbone": "mobilenet_v2", "model.image_size": pixels, "model.weights": str(weights)}
    folders = [data / "office_caltech10" / name for name in domains]
    return Recipe("office-caltech", *load_folders(folders, out / "cache", pixels), settings)


def run(recipe: Recipe, settings: Settings, depth: str, out: Path) -> dict[str, Any]:
    """One pair of domains with one depth, unless it is there."""
    name = "-".join(domain.name for domain in recipe.domains)
    options = f"{settings.model.image_size}-{settings.training.epochs}-{settings.source.epochs}-{settings.training.seed}"
    file = out / f"{name}-{options}-{depth}.json"
    if not file.is_file():
        source = out / f"source-{recipe.domains[0].name}-{options}.safetensors"
        train_source(recipe, settings, source, lambda *_: None)
        start, busy = time.perf_counter(), time.process_time()
        chosen = settings.model_copy(update={"training": settings.training.model_copy(update={"depth": depth})})
        found = run_cell(recipe, chosen, "guarded", source, lambda *_: None)
        spent = {"wall": time.perf_counter() - start, "processor": time.process_time() - busy}
        file.write_text(json.dumps(found | {"spent": spent}), encoding="utf-8")
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result


def tell(depth: str, cells: list[dict[str, Any]]) -> tuple[float, float]:
    """A line of the table; ACC and seconds."""
    acc = sum(cell["acc"] for cell in cells) / len(cells)
    seconds = sum(cell["seconds"] for cell in cells)
    before = " ".join(f"{cell['R'][0][1]:.1%}" for cell in cells)
    after = " ".join(f"{cell['R'][1][1]:.1%}" for cell in cells)
    steps = sum(cell["steps"] for cell in cells)
    processor = sum(cell["spent"]["processor"] for cell in cells)
    sys.stdout.write(f"| {depth} | {acc:.1%} | {before} | {after} | {steps} | {seconds:.0f} | {processor:.0f} |\n")
    return acc, seconds


def main() -> None:
    """Both depths on every domain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pixels", type=int, default=96)
    parser.add_argument("--epochs", type=int, help="of each episode; default: what init writes")
    parser.add_argument("--source-epochs", type=int, help="of the source model; default: what init writes")
    parser.add_argument("--domains", default=DOMAINS, help="the source first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("bench-depth"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    names = chosen.domains.split(",")
    recipe = load(data_folder(chosen.data), chosen.out, chosen.pixels, names)
    given = {"training.epochs": chosen.epochs, "source.epochs": chosen.source_epochs, "training.seed": chosen.seed}
    settings = resolve_settings(recipe.settings, given)
    cells: dict[str, list[dict[str, Any]]] = {depth: [] for depth in DEPTHS}
    for target in recipe.domains[1:]:
        pair = Recipe(recipe.name, (recipe.domains[0], target), recipe.classes, recipe.settings)
        for depth in DEPTHS:
            cells[depth].append(run(pair, settings, depth, chosen.out))
            sys.stderr.write(f"{target.name}, {depth}: {cells[depth][-1]['seconds']:.0f} s\n")
    held_out = cells["all"][0]["R"][0][0]
    sys.stdout.write(f"{chosen.pixels} pixels, source {names[0]} ({held_out:.1%} held-out), then {' '.join(names[1:])}\n\n")
    sys.stdout.write("| depth | ACC | before | after | steps | seconds | processor seconds with evaluation |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- | --- |\n")
    found = [tell(depth, cells[depth]) for depth in DEPTHS]
    sys.stdout.write(
        f"\nlast-stage: {100 * (found[1][0] - found[0][0]):+.1f} points, {found[0][1] / found[1][1]:.1f} times as fast\n"
    )


if __name__ == "__main__":
    main()
