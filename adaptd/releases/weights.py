"""The weights of versions on disk: written whole, and read only if they are what was written."""

import hashlib

from adaptd.errors import WeightsMismatch, WeightsUnavailable
from adaptd.files import hash_file, replace_file
from adaptd.learning.backbones import Classifier
from adaptd.learning.weights import load_classifier, save_classifier
from adaptd.project.layout import Layout
from adaptd.records import Version


def write_weights(layout: Layout, episode_id: int, model: Classifier) -> str:
    """Write a file that is there whole or not at all, also after a power cut; its SHA-256."""
    path, temporary = layout.weights(episode_id), layout.unfinished_weights(episode_id)
    content = save_classifier(model)
    replace_file(path, content, temporary)
    return hashlib.sha256(content).hexdigest()


def load_version(layout: Layout, version: Version) -> Classifier:
    """The model of a version.

    Raises:
        WeightsUnavailable: its file cannot be read.
        WeightsMismatch: it is not the one that was written.
    """
    path = layout.state / version.weights_path
    try:
        found = hash_file(path)
    except OSError as error:
        raise WeightsUnavailable(
            f"cannot read the weights of version {version.version} ({error}): restore the file from a backup"
        ) from error
    if found != version.weights_sha256:
        raise WeightsMismatch(
            f"the weights of version {version.version} in {path} are damaged, their SHA-256 is {found[:12]}…, "
            f"not {version.weights_sha256[:12]}…: restore the file from a backup"
        )
    return load_classifier(path)
