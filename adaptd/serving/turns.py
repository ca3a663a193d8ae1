"""Work of many requests on few threads, piece by piece, in fair turns: one large request does not hold up a small one.

Start-time fair queueing: a piece may begin when its request has had no more than its share; and one thread is always left for
light pieces. Lives on one event loop.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

HEAVY = 4_000_000
"""A piece of more cost than this does not get the last thread."""

Result = TypeVar("Result")


@dataclass(slots=True)
class Share:
    """What one request has had: costs of its pieces, counted from where all others stood, and processor time."""

    cost: float = 0.0
    seconds: float = 0.0


@dataclass(order=True, slots=True)
class _Piece:
    """A piece of work that waits."""

    end: float
    number: int
    start: float = field(compare=False)
    share: Share = field(compare=False)
    work: Callable[[], Any] = field(compare=False)
    answer: asyncio.Future[Any] = field(compare=False)

    @property
    def is_heavy(self) -> bool:
        """Whether it takes long."""
        return self.end - self.start > HEAVY


class Turns:
    """Gives each piece its turn."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "adaptd-decoder")
        self._idle, self._heavy = threads, max(1, threads - 1)  # free for any piece, free for heavy ones
        self._waiting: list[_Piece] = []
        self._numbers = itertools.count()
        self._now = 0.0  # the start of the piece that began last
        self._loop = asyncio.get_running_loop()

    async def run(self, share: Share, cost: float, work: Callable[[], Result]) -> Result:
        """The result of a request's next piece."""
        start = max(self._now, share.cost)
        share.cost = start + cost
        piece = _Piece(share.cost, next(self._numbers), start, share, work, self._loop.create_future())
        heapq.heappush(self._waiting, piece)
        self._begin()
        result: Result = await piece.answer
        return result

    def _begin(self) -> None:
        passed: list[_Piece] = []
        while self._idle and self._waiting:
            piece = heapq.heappop(self._waiting)
            if piece.answer.done():  # nobody waits for it any more
                continue
            if piece.is_heavy and not self._heavy:
                passed.append(piece)
                continue
            self._idle -= 1
            self._heavy -= piece.is_heavy
            self._now = max(self._now, piece.start)
            self._threads.submit(self._work, piece)
        for piece in passed:
            heapq.heappush(self._waiting, piece)

    def _work(self, piece: _Piece) -> None:
        """In a thread."""
        begin = time.thread_time()
        try:
            result, problem = piece.work(), None
        # Whoever waits must hear of anything that goes wrong.
        except Exception as raised:  # noqa: BLE001
            result, problem = None, raised
        self._loop.call_soon_threadsafe(self._end, piece, time.thread_time() - begin, result, problem)

    def _end(self, piece: _Piece, seconds: float, result: Any, problem: Exception | None) -> None:
        self._idle += 1
        self._heavy += piece.is_heavy
        piece.share.seconds += seconds
        self._begin()
        if piece.answer.done():
            return
        if problem is None:
            piece.answer.set_result(result)
        else:
            piece.answer.set_exception(problem)

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(cancel_futures=True)
