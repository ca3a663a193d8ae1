"""A process that has imported adaptd and torch, and forks one real process for each command: starting takes no seconds.

A line of JSON on standard input starts a command or waits for one; a line on standard output answers.
"""

import gc
import importlib
import json
import os
import signal
import sys
import traceback
from typing import Any

IMPORTED = (
    "adaptd.cli.main",
    "adaptd.care.fsck",
    "adaptd.daemon.control",
    "adaptd.episodes.running",
    "adaptd.imports.importer",
    "adaptd.evaluation.metrics",
    "adaptd.observe.explain",
    "adaptd.releases.promotion",
    "rich.table",
    "sqlalchemy.dialects.sqlite",
    "torch.onnx._internal.torchscript_exporter.symbolic_opset20",
    "torch.onnx._internal.torchscript_exporter.utils",
)
"""What most commands need sooner or later; that each brings its own is seen by tests/cli/test_from_the_start.py."""


def start(order: dict[str, Any]) -> int:
    """Fork a session leader that runs `adaptd` with the words and environment given; it hangs if that takes too many seconds."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    signal.alarm(order["seconds"])
    if order.get("stopped"):  # until somebody who wants to trace it from the start lets it go on
        os.kill(os.getpid(), signal.SIGSTOP)
    for descriptor, path in ((1, order["stdout"]), (2, order["stderr"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = ["adaptd", *order["words"]]
    from adaptd.cli.main import main

    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001 (as the interpreter does)
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking down an interpreter that holds torch takes longer than most commands.
    os._exit(code)


def serve() -> None:
    """Answer until standard input ends."""
    gc.disable()
    for name in IMPORTED:
        importlib.import_module(name)
    gc.enable()
    gc.freeze()  # else every child's collector would copy all of it
    # Not `for line in stdin`: a child must not find the next orders in a buffer it inherited.
    while order := os.read(0, 1 << 20):
        asked = json.loads(order)
        answer = start(asked) if "words" in asked else os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    serve()
