"""The decoder: a process limited in memory and time, so that a hostile file costs one file. Started by `pool`.

It reads jobs as JSON lines on standard input, writes each picture into its row of the pixels file, and answers with a
JSON line. JSON, not pickle: whoever takes over a decoder must not get the parent through what it sends.
"""

import json
import os
import resource
import signal
import sys
import zlib
from pathlib import Path
from typing import Any

from adaptd.errors import ImageRejected
from adaptd.library.decode import decode_file
from adaptd.library.preprocessing import Limits, Preprocessing
from adaptd.records import Reason


def main() -> None:
    """Answer jobs until standard input ends, which it also does when the parent dies."""
    order = json.loads(sys.stdin.buffer.readline())
    preprocessing, limits = Preprocessing(**order["preprocessing"]), Limits(**order["limits"])
    answers = _confine(limits)
    pixels = os.open(order["pixels"], os.O_WRONLY | os.O_CLOEXEC)
    _answer(answers, {"ready": True})
    for line in sys.stdin.buffer:
        row, path, root = json.loads(line)
        # Processor time, not the clock: a busy or sleeping machine is not the file's fault. The default action of
        # SIGPROF ends the process, wherever in a decoder it is.
        signal.setitimer(signal.ITIMER_PROF, limits.max_seconds)
        answer = _decode(row, (Path(path), root and Path(root)), pixels, preprocessing, limits)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _answer(answers, answer)


def _confine(limits: Limits) -> int:
    """Cap memory, leave no core file, and keep what decoders print out of both the answers and the log."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 — a kernel file, not a path of ours
        own_bytes = int(file.read().split()[0]) * resource.getpagesize()
    allowed = own_bytes + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A signal to the whole group is for the parent to act on; a decoder ends when its input does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    return answers


def _decode(
    row: int, file: tuple[Path, Path | None], pixels: int, preprocessing: Preprocessing, limits: Limits
) -> dict[str, Any]:
    path, root = file
    try:
        image = decode_file(path, preprocessing, limits, root)
        content = image.pixels.data.cast("B")
        # A plain write reports a full disk as an error; through a memory map it would be a SIGBUS.
        _write(pixels, content, row * preprocessing.row_bytes)
    except ImageRejected as rejected:
        return {"reason": rejected.reason, "detail": rejected.detail}
    except MemoryError:
        return {"reason": Reason.TOO_COSTLY, "detail": "it takes more memory than one picture may"}
    except OSError as error:
        return {"errno": error.errno, "detail": str(error.strerror)}
    facts = {"sha256": image.sha256, "size_bytes": image.size_bytes, "width": image.width, "height": image.height}
    return facts | {"crc32": zlib.crc32(content)}


def _write(descriptor: int, content: memoryview, offset: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, offset)
        content, offset = content[written:], offset + written


def _answer(descriptor: int, answer: dict[str, Any]) -> None:
    os.write(descriptor, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
