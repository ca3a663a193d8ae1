"""What a project's source training starts from, and whether that is on this machine. Loading it is learning's business."""

from pathlib import Path
from typing import Literal

from adaptd.errors import ConfigError
from adaptd.learning.origins import (
    EFFICIENTNET_LITE0,
    INSTALL_EXTRA,
    ORIGINS,
    PACKAGE,
    RANDOM,
    find_origin,
    kept_file,
    list_kept,
    needed_packages,
    weights_folder,
)
from adaptd.project.layers import Project


def parse_choice(given: str) -> str:
    """What `model.weights` becomes for a word of the command line: a file, `none`, or where weights are published."""
    if given == RANDOM:
        return ""
    return given if given in ORIGINS else str(Path(given).absolute())


def choose_weights(backbone: str, given: str | None) -> str:
    """`model.weights` of a new project; without a word, what is published for its backbone.

    Raises:
        ConfigError: there is no such file, or nothing is published for this backbone there.
    """
    origin = find_origin(backbone)
    if given is None:
        return origin or ""
    chosen = parse_choice(given)
    if chosen in ORIGINS and chosen != origin:
        raise ConfigError(f"{chosen} has no weights for {backbone}: say --weights {origin or RANDOM}")
    if chosen not in {"", *ORIGINS} and not Path(chosen).is_file():
        raise ConfigError(f"there is no weights file {chosen}: check --weights")
    return chosen


def describe_start(project: Project) -> tuple[Literal["ok", "warn"], str, str]:
    """What the source training starts from; where that is missing, what to do."""
    model, file = project.settings.model, project.weights
    if file is not None:
        return ("ok", f"from {file}", "") if file.is_file() else ("warn", f"there is no {file}", "set model.weights")
    if not model.weights:
        return "ok", "from random weights" + ("; photographs need trained ones" if find_origin(model.backbone) else ""), ""
    if missing := needed_packages(model.backbone):
        return "warn", f"{model.backbone} needs {' and '.join(missing)}", INSTALL_EXTRA
    kept, whose = kept_file(model.backbone), "the package" if model.weights == PACKAGE else model.weights
    if model.backbone == EFFICIENTNET_LITE0 or (kept is not None and kept.is_file()):
        return "ok", f"from {whose}'s weights for {model.backbone}, which are on this machine", ""
    return "ok", f"from {whose}'s weights for {model.backbone}, which the source import fetches: it needs a network", ""


def describe_available() -> str:
    """Which trained weights need no network here, and which do."""
    installed = EFFICIENTNET_LITE0 if not needed_packages(EFFICIENTNET_LITE0) else ""
    here = dict.fromkeys(filter(None, (installed, *list_kept())))
    missing = "" if installed else f"; {EFFICIENTNET_LITE0} needs {INSTALL_EXTRA}"
    folder = weights_folder()
    kept = f"kept in {folder}" if folder else "kept nowhere: this user has no home, set XDG_CACHE_HOME"
    return f"without a network: {', '.join(here) or 'none'}; others are fetched once and {kept}{missing}"
