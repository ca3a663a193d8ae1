"""docs/configuration.md and docs/cli.md are what the code says, and say all of it."""

import pytest

from adaptd.cli import configuration, reference
from adaptd.learning.methods.registry import get_entry
from adaptd.project.catalogue import setting_names
from adaptd.project.reload import FIXED
from adaptd.project.settings import Settings
from tests.conftest import REPOSITORY

PAGES = {"configuration.md": configuration.render_page, "cli.md": reference.render_page}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name, monkeypatch):
    """Whoever changes a setting or a command makes the page again; the terminal's width does not matter."""
    monkeypatch.setenv("COLUMNS", "40")
    assert (REPOSITORY / "docs" / name).read_text() == PAGES[name](), "run: make docs"


def test_every_setting_stands_under_its_variable():
    """Nothing is left out."""
    page = configuration.render_page()
    assert [name for name in setting_names() if f"`ADAPTD_{name.replace('.', '__').upper()}`" not in page] == []


def test_what_a_reload_changes_is_told_as_the_daemon_does_it():
    """A section that the daemon keeps until its next start is not said to follow SIGHUP, and the other way round."""
    texts = {part.split("]")[0]: part for part in configuration.render_page().split("\n## [")[1:]}
    assert {name for name, text in texts.items() if "SIGHUP" not in text} == {*FIXED, *configuration.READ_BY}


def test_every_command_and_option_is_there():
    """Each command has its heading, each option its row, and links lead to headings."""
    page = reference.render_page()
    for words, command in reference.list_commands():
        _, _, rest = page.partition(f"## {' '.join(words)}\n")
        text = rest.partition("\n## ")[0]
        assert text, words
        assert [
            param.opts[0] for param in command.params if param.opts[0].startswith("--") and f"`{param.opts[0]}" not in text
        ] == []


def test_the_method_page_knows_the_default():
    """Which method is the default, and by which rule it steps."""
    text = (REPOSITORY / "docs" / "method.md").read_text()
    name = Settings().method.name
    section = text.split(f"`{name}`, the default,")[1].split("\n## ")[0]
    assert "The step is RMSprop's" in section
    assert get_entry(name).rule == "rmsprop"
