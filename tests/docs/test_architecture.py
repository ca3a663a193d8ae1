"""The architecture page tells of files and functions that exist."""

import re

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
WALK = re.findall(r"^(\w+/\w*(?:\.py)?) +([\w.]+)  ", PAGE.partition("## The walk of a dropped folder")[2], re.MULTILINE)
ROOMS = re.findall(r"^  (\w+)/ ", PAGE.partition("## The rooms")[2], re.MULTILINE)


def test_the_walk_is_short():
    """A reader follows a folder in at most fifteen lines."""
    assert 10 <= len(WALK) <= 15


@pytest.mark.parametrize(("file", "function"), WALK)
def test_every_step_of_the_walk_exists(file, function):
    """The module is there, and so is the class or function in it."""
    path = REPOSITORY / "adaptd" / file
    assert path.exists()
    if path.is_file():
        text = path.read_text()
        for name in function.split("."):
            assert re.search(rf"^\s*(?:class|def) {name}\b", text, re.MULTILINE), name


def test_every_room_is_listed():
    """No room is missing, and none is there that does not exist."""
    there = {path.parent.name for path in (REPOSITORY / "adaptd").glob("*/__init__.py")}
    assert set(ROOMS) == there
