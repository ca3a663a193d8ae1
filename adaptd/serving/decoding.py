"""The image files of a request → pixels, in threads, in fair turns with other requests, and within what one request may cost."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from adaptd.errors import ClientLeft, ImageRejected, RequestRefused
from adaptd.library.decode import measure_pixels
from adaptd.library.preprocessing import Limits
from adaptd.records import Reason
from adaptd.serving.predictions import decode_image
from adaptd.serving.session import Images, Model
from adaptd.serving.turns import HEAVY, Share, Turns
from adaptd.serving.uploads import Upload, has_many, read_uploads

THREADS = 3
"""Two for large images, and one that they leave to small ones."""
LEAST_COST = 100_000
"""Of a small image, in pixels: opening it costs something too."""


class Decoded(NamedTuple):
    """A file's pixels, or why it was refused, with the name that its client gave it."""

    image: Images | ImageRejected
    name: str | None


class Decoding:
    """Decodes for one server.

    Args:
        limits: what one image may cost.
        max_pixels: of all images of a request.
        max_seconds: of processor time for all images of a request; an image that was begun is finished.
    """

    def __init__(self, limits: Limits, max_pixels: int, max_seconds: float) -> None:
        self._limits = replace(limits, max_pixels=min(limits.max_pixels, max_pixels))
        self._light_limits = replace(limits, max_pixels=min(limits.max_pixels, HEAVY))
        self._max_pixels, self._max_seconds = max_pixels, max_seconds
        self._turns = Turns(THREADS)
        self.requests = 0

    async def decode(self, body: bytes, content_type: bytes, model: Model, gone: Callable[[], bool]) -> list[Decoded]:
        """Each file's pixels, or why it was refused; RequestRefused where all of them are too much."""
        self.requests += 1
        try:
            return await self._decode(body, content_type, model, gone)
        finally:
            self.requests -= 1

    async def _decode(self, body: bytes, content_type: bytes, model: Model, gone: Callable[[], bool]) -> list[Decoded]:
        share = Share()
        decoded: list[Decoded] = []
        for upload, pixels in await self._read(share, body, content_type):
            if gone():
                raise ClientLeft("the client left before its images were decoded")
            if share.seconds > self._max_seconds:
                raise RequestRefused(
                    413, f"decoding the images takes more than {self._max_seconds:g} seconds: send fewer at once"
                )
            found = upload.content
            image = found if isinstance(found, ImageRejected) else await self._decode_file(share, found, pixels, model)
            decoded.append(Decoded(image, upload.name))
        return decoded

    async def _decode_file(self, share: Share, data: bytes, pixels: int, model: Model) -> Images | ImageRejected:
        """What seems light is decoded within a light piece's limits; where it is more than it seemed, it takes a heavy turn."""
        if pixels <= HEAVY:
            decoded = await self._turns.run(share, LEAST_COST + pixels, lambda: decode_image(data, model, self._light_limits))
            if not (isinstance(decoded, ImageRejected) and decoded.reason == Reason.TOO_MANY_PIXELS):
                return decoded
        cost = LEAST_COST + max(pixels, HEAVY)
        return await self._turns.run(share, cost, lambda: decode_image(data, model, self._limits))

    async def _read(self, share: Share, body: bytes, content_type: bytes) -> list[tuple[Upload, int]]:
        """The files with their pixels. One alone is bounded by its own limits, and its bytes are a guess that costs nothing."""
        if not has_many(content_type):
            return [(upload, len(body)) for upload in read_uploads(body, content_type)]
        files = await self._turns.run(share, len(body), lambda: _measure(read_uploads(body, content_type)))
        total = sum(pixels for _, pixels in files)
        if total > self._max_pixels:
            raise RequestRefused(413, f"the images have {total} pixels together, at most {self._max_pixels} fit into a request")
        return files

    def close(self) -> None:
        """Decode nothing more."""
        self._turns.close()


def _measure(files: list[Upload]) -> list[tuple[Upload, int]]:
    return [(upload, measure_pixels(upload.content) if isinstance(upload.content, bytes) else 0) for upload in files]
