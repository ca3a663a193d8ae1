"""Templates to HTML: everything escaped, every hidden character shown. What goes into them is made by the page modules."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from adaptd import __version__
from adaptd.observe.dashboard import wording
from adaptd.observe.dashboard.doings import WORDS, tell_command
from adaptd.observe.dashboard.site import Links, PageLinks
from adaptd.observe.vocabulary import EVENTS, tone_of

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=wording.make_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for word in (wording.percent, wording.interval, wording.points, wording.moment, wording.duration, wording.count):
        environment.filters[word.__name__] = word
    environment.globals |= {"tone_of": tone_of, "meanings": EVENTS, "adaptd_version": __version__}
    environment.globals |= {"words": WORDS, "command_of": tell_command}
    return environment


def render(template: str, values: dict[str, Any], links: Links | None = None) -> str:
    """A template with its values."""
    return _environment().get_template(template).render({"level": 2} | values | {"links": links or PageLinks()})


def read_static(name: str) -> str:
    """A style sheet or script, for a document that stands alone."""
    return (STATIC / name).read_text(encoding="utf-8")
