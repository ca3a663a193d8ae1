"""Log lines as a process writes them: JSON into a pipe, for people on a terminal."""

import json
import os
import subprocess
import sys

PROGRAM = """
import logging
from adaptd.observe.logs import set_up_logs
set_up_logs("info", "auto")
log = logging.getLogger("adaptd.daemon")
log.debug("not shown")
log.info("adapting %s", "fog", extra={"domain": "fog", "episode": 3})
try:
    1 / 0
except ZeroDivisionError:
    log.exception("two\\nlines")
"""


def test_a_pipe_gets_one_json_object_a_line():
    """Also where a message has several lines, and with the exception inside."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True, check=True)
    first, second = map(json.loads, run.stderr.splitlines())
    assert {name: first[name] for name in ("level", "logger", "message", "domain", "episode")} == {
        "level": "info",
        "logger": "adaptd.daemon",
        "message": "adapting fog",
        "domain": "fog",
        "episode": 3,
    }
    assert second["message"] == "two\nlines"
    assert second["exception"].endswith("ZeroDivisionError: division by zero")


def test_a_terminal_gets_lines_for_people():
    """Time, level, message and the extras as name=value."""
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", PROGRAM], stderr=theirs, check=True)
    os.close(theirs)
    text = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "info    adapting fog domain=fog episode=3\r\n" in text
    assert "not shown" not in text
