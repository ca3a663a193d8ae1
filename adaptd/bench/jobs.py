"""A comparison in several processes: each takes the next cell that nobody runs. They share nothing but the folder."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace

from adaptd.bench.asked import Asked, Comparison
from adaptd.errors import AdaptdError, BenchFailed
from adaptd.machine import cpu_count

POLL_SECONDS = 0.5

Tell = Callable[[int, int], None]
"""Told how many cells are there, of how many."""


def run_in_processes(comparison: Comparison, jobs: int, tell: Tell) -> None:
    """Run what is missing, in so many processes that share the processors.

    Raises:
        BenchFailed: a process ended with an error, which it has told.
    """
    asked = replace(comparison.asked, threads=max(1, cpu_count() // jobs))
    grids = list(comparison.grids())
    total = sum(len(grid.cells) for grid in grids)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work, args=(asked,)) for _ in range(jobs)]
    for process in processes:
        process.start()
    try:
        while any(process.is_alive() for process in processes):
            tell(total - sum(len(grid.missing()) for grid in grids), total)
            time.sleep(POLL_SECONDS)
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if any(process.exitcode for process in processes):
        raise BenchFailed("a process of the comparison ended early, see above: what is done is kept, the same command goes on")


def _work(asked: Asked) -> None:
    try:
        for grid in asked.load().grids():
            for method, seed in grid.missing():
                grid.run(method, seed, lambda *_: None)
    except AdaptdError as problem:
        raise SystemExit(str(problem)) from problem
