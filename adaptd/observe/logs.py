"""Log lines: for people on a terminal, one JSON object a line otherwise. What is logged is decided elsewhere."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO

from adaptd.text import escape_hidden, escape_json, to_iso

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _extras(record: logging.LogRecord) -> dict[str, object]:
    """What the caller passed as `extra`: ids of domain, episode, version and so on."""
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the extras."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": to_iso(datetime.fromtimestamp(record.created, UTC), "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _extras(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escape_json(json.dumps(line, default=str, ensure_ascii=False))


class HumanFormatter(logging.Formatter):
    """Time, level and message, then the extras as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        extras = "".join(f" {name}={value}" for name, value in _extras(record).items())
        lines = self.formatException(record.exc_info).split("\n") if record.exc_info else []
        trace = "".join(f"\n{escape_hidden(line)}" for line in lines)
        return f"{when} {record.levelname.lower():7} {escape_hidden(record.getMessage() + extras)}{trace}"


def set_up_logs(level: str, style: str, stream: IO[str] | None = None) -> None:
    """Send adaptd's log lines to `stream` (standard error), as `style` human, json or auto."""
    stream = stream or sys.stderr
    human = style == "human" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter() if human else JsonFormatter())
    logger = logging.getLogger("adaptd")
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
