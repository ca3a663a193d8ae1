"""Trained weights, fetched once and kept as safetensors. Where they come from is said in `origins` and `fetching`."""

import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from adaptd.errors import WeightsMismatch, WeightsUnavailable
from adaptd.files import replace_file
from adaptd.learning.fetching import Published, find_published
from adaptd.learning.origins import EFFICIENTNET_LITE0, find_origin, kept_file
from adaptd.learning.tensors import read_tensors

FORMAT = "adaptd.pretrained/1"
log = logging.getLogger(__name__)


def load_pretrained(backbone: str, origin: str) -> dict[str, Tensor]:
    """Trained weights of a backbone by its own names: the kept ones, else fetched, checked and kept.

    A user without a home, or with one that cannot be written, keeps nothing and fetches each time.

    Raises:
        ConfigError: there is no such backbone, nothing is published for it, or a package is missing.
        WeightsUnavailable: they are not here and cannot be fetched, or are not what was published.
    """
    published = find_published(backbone)
    if origin != find_origin(backbone):
        raise WeightsUnavailable(f"{origin} has no weights for {backbone}: set model.weights to {find_origin(backbone)}")
    path = kept_file(backbone)
    kept = _read_kept(path, published.name) if path and path.is_file() else None
    if kept is not None:
        return kept
    tensors = _fetch(backbone, origin, published)
    if path:
        _keep(path, published.name, tensors)
    return tensors


def _fetch(backbone: str, origin: str, published: Published) -> dict[str, Tensor]:
    try:
        with tempfile.TemporaryDirectory(prefix="adaptd-") as folder:
            return {name: value.contiguous() for name, value in published.fetch(Path(folder)).items()}
    except (OSError, RuntimeError, ValueError) as error:
        other = "" if backbone == EFFICIENTNET_LITE0 else f", or choose the backbone {EFFICIENTNET_LITE0}, which needs no network"
        raise WeightsUnavailable(
            f"cannot get {origin}'s weights for {backbone} ({_first_line(error)}): go online once, give a safetensors file "
            f"(--weights FILE), start from random weights (--weights none){other}"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _keep(path: Path, name: str, tensors: Mapping[str, Tensor]) -> None:
    note = json.dumps({"name": name, "sha256": _digest(tensors)})
    try:
        replace_file(path, save(dict(tensors), metadata={FORMAT: note}))
    except OSError as error:
        log.warning("weights cannot be kept in %s and will be fetched again (%s): set XDG_CACHE_HOME", path.parent, error)


def _read_kept(path: Path, name: str) -> dict[str, Tensor] | None:
    """What was kept, if it is whole and still what is published under this name."""
    try:
        tensors, metadata = read_tensors(path)
        note = json.loads(metadata.get(FORMAT, "{}"))
    except (WeightsUnavailable, WeightsMismatch, ValueError) as error:
        log.warning("%s: it is fetched again", error)
        return None
    if note != {"name": name, "sha256": _digest(tensors)}:
        log.warning("%s is damaged, or has other weights than %s: it is fetched again", path, name)
        return None
    return tensors


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {list(tensors[name].shape)} {tensors[name].dtype}\n".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
