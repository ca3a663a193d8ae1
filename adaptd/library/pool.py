"""The parent's side of decoding: hands files to workers and finds out which file ended one. Decodes nothing."""

import json
import math
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adaptd.errors import IntakeError
from adaptd.library.preprocessing import Limits, Preprocessing
from adaptd.records import Reason

Job = tuple[int, Path]
"""A row of the pixels file, and the picture to go there."""

Answer = dict[str, Any]
"""What a worker found: the facts of a picture, or `reason` and `detail` of its rejection."""

# Enough to keep a worker busy while the parent does something else; few enough that all answers fit into a pipe, so
# that a worker never waits for the parent while the parent waits for it.
_AHEAD = 16
_MAX_FAILED_STARTS = 3
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")


def worker_count(files: int) -> int:
    """As many as the cores this process may use, but none that would hardly have anything to do."""
    return max(1, min(len(os.sched_getaffinity(0)), math.ceil(files / _AHEAD)))


class _Worker:
    """One decoding process and the jobs it has not answered yet, oldest first."""

    def __init__(self, order: bytes) -> None:
        self.jobs: deque[Job] = deque()
        self.ready = False
        self._unfinished = b""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "adaptd.library.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=_environment(),
            # Ctrl-C on a terminal is for the parent, also while a worker is still starting.
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self.output = self._process.stdin, self._process.stdout
        self._send(order)

    def give(self, job: Job) -> None:
        self.jobs.append(job)
        self._send(json.dumps([job[0], os.fspath(job[1])]).encode() + b"\n")

    def _send(self, line: bytes) -> None:
        view = memoryview(line)
        try:
            while view:
                view = view[self._input.write(view) or 0 :]
        except BrokenPipeError:
            pass  # it died; the end of its output tells so, and its jobs are still in the list

    def listen(self) -> list[Answer] | None:
        """What it said since the last time; None when it is gone, or talks nonsense."""
        received = os.read(self.output.fileno(), 65536)
        *lines, self._unfinished = (self._unfinished + received).split(b"\n")
        try:
            answers: list[Answer] = [json.loads(line) for line in lines]
        except ValueError:
            return None
        return answers if received else None

    def end(self) -> int:
        """Stop it wherever it is, and tell its exit code."""
        self._input.close()
        self.output.close()
        self._process.kill()
        return self._process.wait()


def _environment() -> dict[str, str]:
    """Only what an interpreter needs: tokens and database passwords are no business of a decoder."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    # Threads of numerical libraries would only reserve address space that the limit then counts.
    return kept | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class _Pool:
    """Workers on a common list of jobs."""

    def __init__(self, jobs: Iterable[Job], order: bytes, selector: selectors.BaseSelector) -> None:
        self._waiting = deque(jobs)
        self._order = order
        self._selector = selector
        self._suspects: set[int] = set()
        self._failed_starts = 0

    def run(self, workers: int) -> Iterator[tuple[int, Answer]]:
        for _ in range(workers):
            self._start()
        while self._selector.get_map():
            for key, _ in self._selector.select():
                worker: _Worker = key.data
                if (answers := worker.listen()) is None:
                    yield from self._bury(worker)
                    continue
                for answer in answers:
                    if worker.ready:
                        yield worker.jobs.popleft()[0], answer
                    worker.ready = True
                    self._failed_starts = 0
                self._feed(worker)

    def stop(self) -> None:
        for key in list(self._selector.get_map().values()):
            self._remove(key.data)

    def _start(self) -> None:
        worker = _Worker(self._order)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)

    def _remove(self, worker: _Worker) -> int:
        self._selector.unregister(worker.output)
        return worker.end()

    def _feed(self, worker: _Worker) -> None:
        while self._waiting and len(worker.jobs) < _AHEAD:
            worker.give(self._waiting.popleft())
        if not worker.jobs:
            self._remove(worker)

    def _bury(self, worker: _Worker) -> Iterator[tuple[int, Answer]]:
        """Blame the file a worker died on, put its other files back, and start a successor."""
        exit_code = self._remove(worker)
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise IntakeError(f"the decoding process does not start (exit code {exit_code}); run `adaptd doctor`")
        if worker.jobs:
            yield from self._blame(worker.jobs.popleft(), exit_code)
        self._waiting.extendleft(reversed(worker.jobs))
        if self._waiting:
            self._start()

    def _blame(self, job: Job, exit_code: int) -> Iterator[tuple[int, Answer]]:
        row = job[0]
        if exit_code == -signal.SIGPROF:
            yield row, {"reason": Reason.TOO_COSTLY, "detail": "decoding it takes longer than one picture may"}
        elif row in self._suspects:
            yield row, {"reason": Reason.CRASHED, "detail": f"the decoder died on it twice (exit code {exit_code})"}
        else:
            # Perhaps somebody else killed the worker. A second death on the same file is no coincidence.
            self._suspects.add(row)
            self._waiting.appendleft(job)


def decode_in_workers(
    jobs: Iterable[Job], pixels: Path, preprocessing: Preprocessing, limits: Limits, workers: int
) -> Iterator[tuple[int, Answer]]:
    """Decode every job into its row of `pixels`; each row is answered exactly once, in no particular order.

    Raises:
        OSError: the machine cannot go on: disk full, no descriptors.
        IntakeError: decoding processes do not start.
    """
    order = {"preprocessing": preprocessing.to_json(), "limits": asdict(limits), "pixels": os.fspath(pixels)}
    with selectors.DefaultSelector() as selector:
        pool = _Pool(jobs, json.dumps(order).encode() + b"\n", selector)
        try:
            for row, answer in pool.run(workers):
                if "errno" in answer:
                    raise OSError(answer["errno"], answer["detail"])
                yield row, answer
        finally:
            pool.stop()
