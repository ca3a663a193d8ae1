"""Ingest against bare decoding, on the same files, cores and minute.

    python benchmarks/ingest.py [--data ../shared/data] [--out benchmarks/out/ingest.json] [--rounds 5]

`ingest` is all of it: processes started, files opened safely, hashed, decoded, resized, checksummed, written, synced,
sealed. `bare` only reads, decodes with simplejpeg and resizes with Pillow; `decode only` does not even resize. Both run
in processes that are already there and keep nothing.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

from adaptd.library.draft import decode_files
from adaptd.library.folders import Found, list_domain
from adaptd.library.preprocessing import Limits, Preprocessing

SIZE = 224


def bare(path: str) -> None:
    """What the picture costs without any care."""
    pixels = simplejpeg.decode_jpeg(Path(path).read_bytes())
    np.asarray(Image.fromarray(pixels).resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def decode_only(path: str) -> None:
    """Without even bringing it to the working size."""
    simplejpeg.decode_jpeg(Path(path).read_bytes())


def ingest(files: tuple[Found, ...], workspace: Path) -> None:
    """All of it, into a cache that is thrown away afterwards."""
    with decode_files(files, workspace, Preprocessing(SIZE), Limits()) as draft:
        assert not draft.rejected
        draft.seal(workspace / "cache", [(image, row) for row, image in enumerate(draft.images)])


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def gemm_gflops() -> float:
    """How fast the machine is in this minute."""
    a = np.ones((1024, 1024), dtype=np.float32)
    return 2 * 1024**3 / min(seconds(lambda: a @ a) for _ in range(5)) / 1e9


def measure(files: tuple[Found, ...], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant, one after the other, round after round."""
    paths = [str(file.path) for file in files]
    times: dict[str, list[float]] = {"ingest": [], "bare": [], "decode only": []}
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("spawn").Pool(cores) as pool, tempfile.TemporaryDirectory() as scratch:
        pool.map(bare, paths)
        workspace = Path(scratch, "state")
        for _ in range(rounds):
            times["ingest"].append(seconds(lambda: ingest(files, workspace)))
            shutil.rmtree(workspace)
            times["bare"].append(seconds(lambda: pool.map(bare, paths, chunksize=16)))
            times["decode only"].append(seconds(lambda: pool.map(decode_only, paths, chunksize=16)))
    return times


def main() -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description="ingest against bare decoding")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ADAPTD_BENCH_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/ingest.json"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    folder = options.data / "office_caltech10"
    if not folder.is_dir():
        print(f"skipped: there is no {folder}; say where it is with --data or ADAPTD_BENCH_DATA")
        return 0
    files = list_domain(folder).train
    times = measure(files, options.rounds)
    gemm, cores = gemm_gflops(), len(os.sched_getaffinity(0))
    quartiles: dict[str, dict[str, float]] = {}
    print(f"{len(files)} JPEGs to {SIZE} px, {cores} cores, GEMM {gemm:.0f} GFLOP/s")
    print(f"{'':12} {'images/s':>9} {'ingest is, of it':>17} {'p25':>6}")
    for name, taken in times.items():
        ratios = [other / ours for other, ours in zip(taken, times["ingest"], strict=True)]
        p25, median, _ = statistics.quantiles(ratios, n=4)
        quartiles[name] = {"median": median, "p25": p25}
        print(f"{name:12} {len(files) / statistics.median(taken):9.0f} {median:17.2f} {p25:6.2f}")
    report: dict[str, object] = {"images": len(files), "size": SIZE, "cores": cores, "gemm_gflops": gemm}
    report |= {"seconds": times, "ingest_over": quartiles}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
