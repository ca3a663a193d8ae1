"""The parent's side of decoding: hands files to decoders and finds out which file ended one. Decodes nothing."""

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

Job = tuple[int, Path, Path | None]
"""A row of the pixels file, the picture to go there, and the folder below which no link is followed."""

Answer = dict[str, Any]
"""What a decoder found: the facts of a picture, or `reason` and `detail` of its rejection."""

# Enough to keep a decoder busy while the parent does something else; few enough that all answers fit into a pipe, so
# that a decoder never waits for the parent while the parent waits for it.
_AHEAD = 16
# A start costs half a second, as much as decoding some dozens of photographs.
_WORTH_A_START = 64
_MAX_FAILED_STARTS = 3
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")


def decoder_count(files: int) -> int:
    """As many as the cores this process may use, but none that would be busy for less time than its start takes."""
    return max(1, min(len(os.sched_getaffinity(0)), math.ceil(files / _WORTH_A_START)))


class _Decoder:
    """One decoder process and the jobs it has not answered yet, oldest first."""

    def __init__(self, order: bytes) -> None:
        self.jobs: deque[Job] = deque()
        self.ready = False
        self._unfinished = b""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "adaptd.library.decoder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=_environment(),
            # Ctrl-C on a terminal is for the parent, also while a decoder is still starting.
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self.output = self._process.stdin, self._process.stdout
        self._send(order)

    def give(self, job: Job) -> None:
        self.jobs.append(job)
        self._send(json.dumps([job[0], os.fspath(job[1]), job[2] and os.fspath(job[2])]).encode() + b"\n")

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
    """Decoders on a common list of jobs."""

    def __init__(self, jobs: Iterable[Job], order: bytes, selector: selectors.BaseSelector) -> None:
        self._waiting = deque(jobs)
        self._order = order
        self._selector = selector
        self._suspects: set[int] = set()
        self._failed_starts = 0

    def run(self, decoders: int) -> Iterator[tuple[int, Answer]]:
        for _ in range(decoders):
            self._start()
        while self._selector.get_map():
            for key, _ in self._selector.select():
                decoder: _Decoder = key.data
                if (answers := decoder.listen()) is None:
                    yield from self._replace(decoder)
                    continue
                for answer in answers:
                    if decoder.ready:
                        yield decoder.jobs.popleft()[0], answer
                    decoder.ready = True
                    self._failed_starts = 0
                self._feed(decoder)

    def stop(self) -> None:
        for key in list(self._selector.get_map().values()):
            self._remove(key.data)

    def _start(self) -> None:
        decoder = _Decoder(self._order)
        self._selector.register(decoder.output, selectors.EVENT_READ, decoder)

    def _remove(self, decoder: _Decoder) -> int:
        self._selector.unregister(decoder.output)
        return decoder.end()

    def _feed(self, decoder: _Decoder) -> None:
        while self._waiting and len(decoder.jobs) < _AHEAD:
            decoder.give(self._waiting.popleft())
        if not decoder.jobs:
            self._remove(decoder)

    def _replace(self, decoder: _Decoder) -> Iterator[tuple[int, Answer]]:
        """Blame the file a decoder died on, put its other files back, and start a successor."""
        exit_code = self._remove(decoder)
        if not decoder.ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise IntakeError(f"the decoder does not start (exit code {exit_code}); run `adaptd doctor`")
        suspect, *others = decoder.jobs or (None,)
        self._waiting.extendleft(reversed(others))
        if suspect is not None:
            yield from self._blame(suspect, exit_code)
        if self._waiting:
            self._start()

    def _blame(self, job: Job, exit_code: int) -> Iterator[tuple[int, Answer]]:
        row = job[0]
        if exit_code == -signal.SIGPROF:
            yield row, {"reason": Reason.TOO_COSTLY, "detail": "decoding it takes longer than one picture may"}
        elif row in self._suspects:
            yield row, {"reason": Reason.CRASHED, "detail": f"the decoder died on it twice (exit code {exit_code})"}
        else:
            # Perhaps somebody else killed the decoder. The next one begins with this file: dead again, it is no coincidence.
            self._suspects.add(row)
            self._waiting.appendleft(job)


def decode_in_processes(
    jobs: Iterable[Job], pixels: Path, preprocessing: Preprocessing, limits: Limits, decoders: int
) -> Iterator[tuple[int, Answer]]:
    """Decode every job into its row of `pixels`; each row is answered exactly once, in no particular order.

    Raises:
        OSError: the machine cannot go on: disk full, no descriptors.
        IntakeError: decoders do not start.
    """
    order = {"preprocessing": preprocessing.to_json(), "limits": asdict(limits), "pixels": os.fspath(pixels)}
    with selectors.DefaultSelector() as selector:
        pool = _Pool(jobs, json.dumps(order).encode() + b"\n", selector)
        try:
            for row, answer in pool.run(decoders):
                if "errno" in answer:
                    raise OSError(answer["errno"], answer["detail"])
                yield row, answer
        finally:
            pool.stop()
