"""Names that would rather not be seen as they are: no command and no log sends a terminal what it would obey."""

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adaptd.text import is_hidden
from tests.conftest import REPOSITORY, Shop

ODD = "\x1b]0;title\x07\r\nforged: line\x1b[2J\x9b1m\u202egpj\u2028x"
"""A title, a line of its own, a cleared screen, a turned direction."""


@pytest.fixture
def odd(_adapted_shop: Shop, tmp_path: Path, night: Path) -> Shop:
    """A project in a folder of such a name, with such files in quarantine and such a folder in its inbox."""
    shop = _adapted_shop.copy(tmp_path / f"shop{ODD}")
    folder = tmp_path / "fog"
    folder.mkdir()
    for number, picture in enumerate(sorted(night.glob("*.png"))[::3]):
        shutil.copy(picture, folder / f"{ODD}{number}.png")
    (folder / f"{ODD}.jpg").write_bytes(b"no image")
    shop.does("adapt", folder, env={"ADAPTD_METHOD__GUARDED__MIN_AGREEMENT": "0"})
    (shop.root / "inbox" / f"x{ODD}").mkdir()
    (shop.root / "inbox" / f"loose{ODD}.png").touch()
    (shop.state / "cache" / f"left{ODD}").mkdir()
    return shop


def check(text: str) -> None:
    """Nothing hidden but the ends of lines, and no line that a name made."""
    assert [character for character in text if is_hidden(character) and character != "\n"] == []
    assert not [line for line in text.split("\n") if line.startswith("forged")]


@pytest.mark.long
def test_commands(odd, tmp_path):
    """Every command that prints names of files, folders and domains, its errors too."""
    picture = tmp_path / f"{ODD}.png"
    shutil.copy(next(path for path in sorted((tmp_path / "fog").iterdir()) if path.suffix == ".png"), picture)
    (tmp_path / f"bad{ODD}.png").write_bytes(b"no image")
    commands = [
        ("status",),
        ("status", "--json"),
        ("explain", "fog"),
        ("explain", "fog", "--json"),
        ("explain", f"x{ODD}"),
        ("quarantine", "list"),
        ("quarantine", "list", "--json"),
        ("quarantine", "list", ODD),
        ("matrix",),
        ("matrix", "--csv"),
        ("versions",),
        ("diff", 1, 2),
        ("gc", "--dry-run", "--originals"),
        ("fsck",),
        ("fsck", "--json"),
        ("doctor",),
        ("config", "show", "--origin"),
        ("config", "check"),
        ("db", "check"),
        ("db", "backup", "--out", tmp_path / f"backup{ODD}"),
        ("report", "--out", tmp_path / f"report{ODD}.html"),
        ("predict", picture, tmp_path / f"bad{ODD}.png", tmp_path / f"gone{ODD}.png"),
        ("predict", "--json", picture),
        ("predict", f"--{ODD}"),
        ("adapt", tmp_path / f"nowhere{ODD}"),
        ("adapt", tmp_path / "fog", "--domain", ODD),
        ("pause", ODD),
        ("retry", ODD),
        ("promote", ODD),
        (ODD,),
        ("quarantine", "restore", "--domain", "fog"),
        ("run", "--drain"),
    ]
    told = ""
    for words in commands:
        run = odd.run(
            *words, env={"ADAPTD_METRICS__PORT": "0", "ADAPTD_INTAKE__TRIGGER": "manual", "ADAPTD_LOGGING__FORMAT": "human"}
        )
        check(run.stdout)
        check(run.stderr)
        assert "Traceback" not in run.stderr
        told += run.stdout + run.stderr
    assert told.count("title") > len(commands) // 2, "names are told, as escapes"


def test_a_terminal(odd):
    """On a terminal rich writes colours and nothing else of what a name brings."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(odd.root), "status"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTD_")}
    env = kept | {"PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "COLUMNS": "1000"}  # no line is broken by us
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    received = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        received += piece
    os.close(ours)
    assert process.wait(60) == 0
    assert b"title" in received
    for evil in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e", "\u2028", "\nforged"):
        assert evil.encode() not in received


@pytest.mark.parametrize("style", ["human", "json"])
def test_log_lines(style):
    """One line for each, whatever its message, its fields and its exception say."""
    program = (
        "import logging, sys\n"
        "from adaptd.observe.logs import set_up_logs\n"
        "odd = sys.argv[1]\n"
        f"set_up_logs('info', {style!r})\n"
        "log = logging.getLogger('adaptd.x')\n"
        "log.info('seen %s', odd, extra={'domain': odd})\n"
        "try:\n    raise ValueError(odd.replace(chr(10), ''))\n"
        "except ValueError:\n    log.exception('failed')\n"
    )
    run = subprocess.run([sys.executable, "-c", program, ODD], capture_output=True, check=True)
    text = run.stderr.decode()
    check(text)
    if style == "json":
        first, second = map(json.loads, text.splitlines())
        assert first["domain"] == ODD, "JSON's own escapes lose nothing"
        assert "ValueError" in second["exception"]


def test_escaping_is_quick():
    """A large document does not take long."""
    from adaptd.text import escape_json

    text = json.dumps({"R": [[0.123456789] * 300] * 300})
    begin = time.perf_counter()
    assert escape_json(text) == text
    assert time.perf_counter() - begin < 0.5
