"""Keeping talkative libraries off the terminal. What they say is not judged here, only put in the debug log."""

import contextlib
import io
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator

CHATTY = ("", "torch.onnx", "torch.export", "onnxscript", "onnx_ir")
"""Loggers to listen to. The root is among them because ONNX Runtime's tools log there, which would give it a handler."""


@contextlib.contextmanager
def silenced(log: logging.Logger) -> Iterator[None]:
    """Prints, warnings and log lines of torch, onnx and ONNX Runtime's tools become debug lines of `log`."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    loggers = [logging.getLogger(name) for name in CHATTY]
    propagated = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        with (
            _standard_output_to(said),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            yield
    finally:
        for logger, before in zip(loggers, propagated, strict=True):
            logger.removeHandler(handler)
            logger.propagate = before
        for line in (*said.getvalue().splitlines(), *(str(warning.message) for warning in warned)):
            log.debug("%s", line)


@contextlib.contextmanager
def _standard_output_to(said: io.StringIO) -> Iterator[None]:
    """Catch what C++ prints beside Python's sys.stdout: a graph that cannot be exported, say, amid somebody's JSON."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        before = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(before, 1)
            os.close(before)
            file.seek(0)
            said.write(file.read().decode(errors="replace"))
