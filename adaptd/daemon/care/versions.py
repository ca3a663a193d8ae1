"""I3 and I6: the chain of versions, and that every file is what its row says. What the models answer was proven before."""

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from adaptd.daemon.care.view import Finding, View
from adaptd.daemon.layout import Layout
from adaptd.library.folders import printable
from adaptd.records import EpisodeState, Version, VersionState

MODEL_FILE, CARD_FILE = "model.onnx", "card.json"
CHAIN = (VersionState.PROMOTED, VersionState.RETIRED)
BACKUP = "restore the file from a backup"
ROLL_BACK = "restore the folder from a backup, or `adaptd rollback` to a version that is whole"


def check_weights(view: View, layout: Layout) -> Iterator[Finding]:
    """I6: weights are those that were committed. That no disturbance changed them is shown by tests, with a second run."""
    digest = cache(_sha256)
    for version in view.versions:
        path = layout.state / version.weights_path
        found = digest(path)
        if found is None and version.state is VersionState.REJECTED:
            continue  # `gc --rejected` may delete them
        if found != version.weights_sha256:
            fact = "are missing" if found is None else f"are damaged, their SHA-256 is {found[:12]}…"
            yield Finding("I6", f"version {version.version}: the weights in {path} {fact}", BACKUP)


def check_chain(view: View) -> Iterator[Finding]:
    """I3: each promoted version follows the promoted one before it, and every version comes from a committed episode."""
    done, before = {episode.id for episode in view.episodes if episode.state is EpisodeState.DONE}, None
    repair = "restore the database's backup"
    for version in view.versions:
        title = f"version {version.version}"
        if version.episode_id not in done:
            yield Finding("I3", f"{title} is of episode {version.episode_id}, which is not committed", repair)
        if version.parent is not None and version.parent >= version.version:
            yield Finding("I3", f"{title} has a parent that came later, version {version.parent}", repair)
        if version.state not in CHAIN:
            continue
        if before is not None and version.parent != before.version:
            fact = f"{title} follows version {version.parent or 'none'}, but version {before.version} was promoted before it"
            yield Finding("I3", fact, repair)
        before = version
    numbers = [version.version for version in view.versions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Finding("I3", f"versions are not numbered 1 … {len(numbers)} without a gap", repair)


def check_models(view: View, models: Path, name: str, *, every: bool) -> Iterator[Finding]:
    """I3: published models are what was proven, with their cards, and load; nothing else stands among them.

    Args:
        view: what the store says.
        models: the model repository.
        name: the model's name in it.
        every: load every model, not only the newest: what has its hash was loaded when it was published.
    """
    published = [v for v in view.versions if v.state is VersionState.PROMOTED and v.model_path is not None]
    for version in published:
        problem = _check_model(version, models, loads=every or version is published[-1])
        if problem is not None:
            yield Finding("I3", f"version {version.version}: {problem}", ROLL_BACK)
    known = {models / (version.model_path or "") for version in published}
    for path in sorted((models / name).glob("[0-9]*")):
        if path not in known:
            fact = f"{printable(path)} is of no promoted version, and whoever reads the repository would serve it"
            yield Finding("I3", fact, "start the daemon, which finishes what was interrupted; else move the folder away")


def _check_model(version: Version, models: Path, *, loads: bool) -> str | None:
    folder = models / (version.model_path or "")
    model, card = folder / MODEL_FILE, folder / CARD_FILE
    found = _sha256(model)
    if found is None:
        return f"{model} is missing"
    if found != version.model_sha256:
        return f"{model} is damaged, its SHA-256 is {found[:12]}…"
    try:
        said = json.loads(card.read_bytes())
        if not isinstance(said, dict) or said.get("model_sha256", found) != found:
            return f"{card} is of another model"
    except (OSError, ValueError) as problem:
        return f"{card} cannot be read ({problem})"
    if loads:
        # Only where there is a model to load: ONNX Runtime takes a third of a second.
        from adaptd.publishing.loading import loads_in_onnxruntime  # noqa: PLC0415

        if (reason := loads_in_onnxruntime(model)) is not None:
            return f"{model} does not load in ONNX Runtime: {reason}"
    return None


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
