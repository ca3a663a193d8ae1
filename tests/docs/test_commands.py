"""Every command in README and docs: run as written, on painted pictures, or named here with the place that runs it.

What differs from a reader's day: a small model and few steps, free ports, and nobody looks at `status --watch` until all is done.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.main import get_command

from adaptd.cli.main import app
from tests.conftest import REPOSITORY
from tests.docs.pages import FENCE, PAGES, Command, list_commands, list_inline
from tests.docs.reader import Reader

ELSEWHERE = {
    "git clone": "CI has it already",
    "make demo": "it takes minutes; tests/cli/test_demo.py runs a small one",
    "make test": "what runs this",
    "make install": "CI begins with it",
    "git -C": "fetches another adaptd",
    "adaptd bench": "takes an hour; tests/bench runs a small one, and its options are parsed below",
    "python -m benchmarks.": "takes minutes to hours",
    "python -m venv ~/.cache/adaptd-bench": "gets a peer that is measured beside adaptd",
    "~/.cache/adaptd-bench": "likewise",
    "podman": "needs a registry; test_containerfile.py checks the file",
    "docker": "needs a container engine and a registry",
    "useradd": "needs root; the unit: tests/process/test_service_unit.py",
    "sudo": "needs root; likewise",
    "cp deploy/": "needs root; likewise",
    "systemctl": "needs a service manager; likewise",
}
"""How a command that is not run here begins, and why it is not."""

CALLS = ("adaptd ", "sudo ", "podman run ")
"""How a command that calls adaptd begins."""
FOLLOWED = {"README.md", "docs/guide.md", "docs/deploying.md", "docs/labels.md"}
"""The last one by tests/labels/test_labels.py."""
COMMANDS = [command for page in PAGES for command in list_commands(page)]
INLINE = [(page.name, line) for page in PAGES for line in list_inline(page)]


def to_run(page: str, *, under: Callable[[str], bool] = lambda _: True) -> list[str]:
    """The commands of a page that are run here."""
    mine = [command for command in COMMANDS if command.page == page and under(command.heading)]
    return [command.line for command in mine if not command.line.startswith(tuple(ELSEWHERE))]


@pytest.fixture
def reader(tmp_path: Path, paint: Callable[..., Path]) -> Iterator[Reader]:
    """With labelled photos, two cameras, of which one has labels to measure by, and one picture more."""
    paint(tmp_path / "photos", 20, seed=0)
    for number in (7, 8):
        paint(tmp_path / f"camera-{number}", 20, seed=number, shift=4 * number, flat=True)
    paint(tmp_path / "camera-8" / "_test", 8, seed=9, shift=30)
    Image.open(tmp_path / "camera-7" / "b-7-000.png").save(tmp_path / "picture.jpg", quality=95)
    reader = Reader(tmp_path)
    yield reader
    reader.closes()


def test_the_readme_leads_to_a_served_adapted_model(reader):
    """Somebody with two folders of pictures who types what stands there gets version 2 from a server, and back to version 1."""
    heard = {line: reader.types(line) for line in to_run("README.md")}
    assert '"version": "2"' in next(text for line, text in heard.items() if line.startswith("curl")), reader.said
    assert "version 3 is promoted: the weights of version 1" in heard["adaptd rollback"]
    reader.leaves()


@pytest.mark.long
def test_the_guide_and_the_ways_to_deploy(reader):
    """Both cameras become promoted versions, one with estimated accuracy and one with measured; deploying serves the result."""
    for line in to_run("docs/guide.md", under=lambda heading: heading != "PostgreSQL"):
        reader.types(line)
    status = reader.status()
    assert [kinds[-2:] for kinds in status["matrix"]["kind"]][-1] == ["estimated", "measured"]
    assert "version 4 is promoted: the weights of version 2" in reader.said
    assert (reader.home / "shop" / "matrix.png").exists()
    reader.leaves()
    for line in to_run("docs/deploying.md"):
        reader.types(line)
    reader.leaves()


def test_the_guide_on_postgres(reader, postgres):
    """A project on a PostgreSQL server, at another address than the page's."""
    lines = to_run("docs/guide.md", under=lambda heading: heading == "PostgreSQL")
    for line in lines:
        reader.types(re.sub(r"URL=\S+", f"URL='{postgres}'", line))
    assert "database is clean" in reader.said


def test_no_command_is_left_out():
    """What a page tells somebody to type is run here, or the list above says why not."""
    assert [c for c in COMMANDS if c.page not in FOLLOWED and not c.line.startswith(tuple(ELSEWHERE))] == []
    assert [start for start in ELSEWHERE if not any(c.line.startswith(start) for c in COMMANDS)] == []


def test_no_command_hides_in_a_block_of_another_kind():
    """Every block says what it is, and those that are not for the shell hold nothing to type."""
    programs = r"(adaptd|make|pip|python|curl|docker|podman|sudo|systemctl|cp|cd) \S"
    blocks = [(page.name, block) for page in PAGES if page.name != "cli.md" for block in FENCE.finditer(page.read_text())]
    assert [name for name, block in blocks if not block[1]] == []
    other = [(name, line) for name, block in blocks if block[1] in {"text", "yaml"} for line in block[2].splitlines()]
    assert [(name, line) for name, line in other if re.match(rf"(\$ )?{programs}", line)] == []


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.line.startswith(CALLS)], ids=lambda command: command.line)
def test_the_command_line_takes_it(command: Command):
    """Words, options and values of a command that is to be typed are parsed by the real commands, also where it is not run."""
    words = [word for word in command.words if word != "&"]
    place = max(number for number, word in enumerate(words) if word == "adaptd")
    parse(words[place + 1 :])


@pytest.mark.parametrize(("page", "line"), INLINE, ids=[line for _, line in INLINE])
def test_the_text_names_commands_that_exist(page: str, line: str):
    """So do commands and options in running text, whatever stands for their values."""
    words = [re.sub(r"[\[\],….]", "", part) for word in line.split()[1:] for part in word.replace("\\|", "|").split("|")]
    command: Any = get_command(app)
    options = {"--help"} | {option for param in command.params for option in param.opts}
    for word in filter(None, words):
        if word.startswith("-"):
            assert word in options, f"{page}: {line}: there is no {word}"
        elif word in getattr(command, "commands", {}):
            command = command.commands[word]
            options |= {option for param in command.params for option in param.opts}
        else:
            assert not hasattr(command, "commands") or word.isupper(), f"{page}: {line}: there is no command {word}"


def parse(words: list[str]) -> None:
    """As typer does before it calls a command; raises where it would complain."""
    command: Any = get_command(app)
    context = command.make_context("adaptd", words)
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def test_the_check_of_words_can_fail():
    """A misspelt option and a wrong value are complaints, not passed over."""
    for words in (["serve", "--prt", "1"], ["serve", "--port", "many"], ["sevre"]):
        with pytest.raises(Exception, match=r"--prt|valid integer|sevre"):
            parse(words)


def test_pages_link_to_what_exists():
    """Files and headings that README and docs point at are there."""
    missing = []
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", FENCE.sub("", page.read_text())):
            path, _, heading = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not (file.exists() and (not heading or heading in anchors(file))):
                missing.append((page.name, target))
    assert missing == []


def test_files_named_in_the_text_exist():
    """Whoever is told where to look finds something there."""
    folders = r"`((?:adaptd|tests|docs|deploy|migrations)/[\w./-]*)`"
    named = {path for page in PAGES for path in re.findall(folders, page.read_text())}
    assert len(named) > 20
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


def anchors(page: Path) -> set[str]:
    """The names that headings get."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
