"""deploy/Containerfile: what it copies is there, and it installs and runs adaptd as the repository says. Builds nothing."""

import fnmatch
import json
import re
import shlex
import tomllib

import pytest

from tests.conftest import REPOSITORY

PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """Its instructions with their arguments, in order."""
    text = (REPOSITORY / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line and not line.startswith("#")]


def find(steps: list[tuple[str, str]], name: str) -> str:
    """The last instruction of a kind."""
    return [argument for instruction, argument in steps if instruction == name][-1]


def test_what_it_copies_is_there_and_let_through(steps):
    """Each source exists, .dockerignore does not keep it back, and lets nothing else through."""
    copied = {word for name, words in steps if name == "COPY" and "--from" not in words for word in words.split()[:-1]}
    assert [path for path in copied if not (REPOSITORY / path).exists()] == []
    rules = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert rules[1] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied


def test_it_has_all_that_the_wheel_is_made_of(steps):
    """The package, the migrations, and the files that pyproject.toml names."""
    copied = " ".join(words for name, words in steps if name == "COPY").split()
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = [*wheel["packages"], *wheel["force-include"], PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"]]
    assert [path for path in named if path not in copied] == []


def test_it_installs_as_make_does(steps):
    """The same pins, extras that exist; a Python that is allowed."""
    makefile = (REPOSITORY / "Makefile").read_text()
    install = shlex.split(re.search(r"pip (install .*)", find([s for s in steps if "pip" in s[1]], "RUN"))[1])
    ours = shlex.split(re.search(r"^INSTALL := \S+/pip (.*)", makefile, re.MULTILINE)[1])
    assert [word for word in ours if word not in install] == []
    extras = re.fullmatch(r"\.\[(.*)\]", install[-1])[1].split(",")
    assert set(extras) <= set(PYPROJECT["project"]["optional-dependencies"])
    version = re.search(r"python:(\d+)\.(\d+)", find(steps, "ARG"))
    least = re.search(r"(\d+)\.(\d+)", PYPROJECT["project"]["requires-python"])
    assert [int(part) for part in version.groups()] >= [int(part) for part in least.groups()]


def test_it_runs_adaptd_as_a_user_without_rights(steps):
    """Not root; in the volume; the command that pip installs, with arguments that can be replaced."""
    names = [name for name, _ in steps]
    assert find(steps, "USER") not in {"root", "0"}
    assert names.index("USER") > max(number for number, name in enumerate(names) if name == "RUN"), "installed by root"
    (entry,) = json.loads(find(steps, "ENTRYPOINT"))
    assert entry in PYPROJECT["project"]["scripts"]
    assert json.loads(find(steps, "CMD")) == ["run"]
    assert find(steps, "VOLUME") == find(steps, "WORKDIR")
    assert fnmatch.fnmatch(find(steps, "ENV"), "PATH=/opt/adaptd/bin:*")


def test_its_ports_are_the_defaults(steps):
    """Of the server and of the daemon's pages."""
    from adaptd.project.settings import Settings

    settings = Settings()
    assert find(steps, "EXPOSE").split() == [str(settings.serving.port), str(settings.metrics.port)]
