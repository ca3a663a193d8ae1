"""Dynamic batching: requests that arrive while the model is busy run together next. Knows no HTTP.

Nothing waits for company: an idle model starts at once, so batches form only under load. Lives on one event loop; runs of
the model happen in one thread beside it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from adaptd.errors import ClientLeft, RequestRefused
from adaptd.serving.session import Images, Model, Outputs
from adaptd.serving.statistics import Run


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request in the queue."""

    model: Model
    images: Images
    gone: Callable[[], bool]
    answer: asyncio.Future[Outputs]
    since: int = field(default_factory=time.perf_counter_ns)


class Batcher:
    """Joins requests for the same version up to `max_batch_size` images.

    Args:
        max_batch_size: images in one run; a single request may not have more.
        max_queue: requests that may wait; further ones are refused with 503.
        observe: called with every run.
    """

    def __init__(self, max_batch_size: int, max_queue: int, observe: Callable[[Run], None] = lambda _: None) -> None:
        self.max_batch_size = max_batch_size
        self._max_queue = max_queue
        self._observe = observe
        self._queue: deque[_Waiting] = deque()
        self._busy = False
        self._runner = ThreadPoolExecutor(1, "adaptd-runner")
        self._loop = asyncio.get_running_loop()

    @property
    def depth(self) -> int:
        """Requests waiting."""
        return len(self._queue)

    def check_room(self, ahead: int = 0) -> None:
        """Refuse a request that would have to wait behind too many others, here or `ahead` of the queue."""
        if len(self._queue) + ahead >= self._max_queue:
            raise RequestRefused(503, f"{self._max_queue} requests are waiting already; try again later")

    def submit(self, model: Model, images: Images, gone: Callable[[], bool]) -> asyncio.Future[Outputs]:
        """The answers to come, from exactly this version; ClientLeft where the client is `gone` before its turn."""
        self.check_room()
        waiting = _Waiting(model, images, gone, self._loop.create_future())
        self._queue.append(waiting)
        if not self._busy:
            self._start()
        return waiting.answer

    def _start(self) -> None:
        batch = self._take()
        self._busy = bool(batch)
        if batch:
            self._runner.submit(self._run, batch)

    def _take(self) -> list[_Waiting]:
        """The oldest request and, in order, those that fit into the same run. What nobody waits for is left out."""
        batch: list[_Waiting] = []
        passed: list[_Waiting] = []
        room = self.max_batch_size
        while self._queue and room:
            waiting = self._queue.popleft()
            if waiting.gone() and not waiting.answer.done():
                waiting.answer.set_exception(ClientLeft("the client left before its turn"))
            if waiting.answer.done():
                continue
            if batch and (waiting.model is not batch[0].model or len(waiting.images) > room):
                passed.append(waiting)
                continue
            batch.append(waiting)
            room -= len(waiting.images)
        self._queue.extendleft(reversed(passed))
        return batch

    def _run(self, batch: list[_Waiting]) -> None:
        """In the runner's thread."""
        model = batch[0].model
        start = time.perf_counter_ns()
        images = batch[0].images if len(batch) == 1 else np.concatenate([waiting.images for waiting in batch])
        joined = time.perf_counter_ns()
        try:
            result: Outputs | Exception = model.run(images)
        # The runtime's exceptions have no common base, and whoever waits must hear of any.
        except Exception as problem:  # noqa: BLE001
            result = problem
        queued = sum(start - waiting.since for waiting in batch)
        infer = time.perf_counter_ns() - joined
        run = Run(model.version, len(batch), len(images), queued, joined - start, infer, isinstance(result, Exception))
        self._loop.call_soon_threadsafe(self._finish, batch, result, run)

    def _finish(self, batch: list[_Waiting], result: Outputs | Exception, run: Run) -> None:
        self._start()  # first, so that the model works while the answers are written
        row = 0
        for waiting in batch:
            after = row + len(waiting.images)
            if not waiting.answer.done():  # else it was cancelled
                if isinstance(result, Exception):
                    waiting.answer.set_exception(result)
                else:
                    waiting.answer.set_result((result[0][row:after], result[1][row:after]))
            row = after
        self._observe(run)

    def close(self) -> None:
        """Run nothing more."""
        self._runner.shutdown(cancel_futures=True)
