"""Weights in and out of a classifier: safetensors only. What the classifier is made of belongs to `backbones`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from adaptd.errors import WeightsMismatch, WeightsUnavailable
from adaptd.learning.backbones import LENETS, Classifier, build_classifier
from adaptd.learning.settings import ModelSettings
from adaptd.learning.torchvision_compat import import_torchvision

TORCHVISION = "torchvision"
FORMAT = "adaptd.model/1"


@dataclass(frozen=True, slots=True)
class WeightsReport:
    """What loading did: keys of the model that were filled and left as they were, keys of the file not used."""

    matched: tuple[str, ...]
    fresh: tuple[str, ...]
    unexpected: tuple[str, ...]


def load_weights(model: Classifier, weights: Path | str) -> WeightsReport:
    """Fill a classifier from a safetensors file with torchvision's key names or our own.

    Args:
        model: changed only if the whole file fits.
        weights: a path; or "torchvision": torchvision's default weights for the backbone, downloaded.

    Raises:
        WeightsMismatch: a shape differs, or not one key fits.
        WeightsUnavailable: the file cannot be read, or the download fails.
    """
    given = _download(model.settings.backbone) if weights == TORCHVISION else _read(Path(weights))[0]
    ours = any(key.startswith(("encoder.", "projector.", "classifier.weight")) for key in given)
    named = given if ours else {f"encoder.{key}": value for key, value in given.items()}
    return _fill(model, named, str(weights), "" if ours else "encoder.")


def save_classifier(model: Classifier) -> bytes:
    """The weights with the settings they belong to, as the bytes of a safetensors file."""
    tensors = {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in _state(model).items()}
    # One entry: of several, safetensors draws the order anew in every process, and equal weights would have other bytes.
    return save(tensors, metadata={FORMAT: model.settings.model_dump_json()})


def load_classifier(path: Path) -> Classifier:
    """The classifier that `save_classifier` wrote, built from the settings inside the file."""
    tensors, metadata = _read(path)
    if FORMAT not in metadata:
        raise WeightsMismatch(f"{path} is not a classifier of adaptd ({FORMAT}): give one that adaptd saved")
    try:
        settings = ModelSettings.model_validate_json(metadata[FORMAT])
    except (ValidationError, json.JSONDecodeError) as error:
        raise WeightsMismatch(f"{path} does not say which classifier it holds: save it again") from error
    model = build_classifier(settings)
    report = _fill(model, tensors, str(path), "")
    if report.fresh or report.unexpected:
        raise WeightsMismatch(f"{path} lacks {_some(report.fresh)} or has too much: {_some(report.unexpected)}")
    return model


def _state(model: Classifier) -> dict[str, Tensor]:
    return dict(model.state_dict())


def _fill(model: Classifier, given: Mapping[str, Tensor], origin: str, prefix: str) -> WeightsReport:
    own = _state(model)
    matched = [key for key in own if key in given]
    if not matched:
        there, wanted = (_some([key.removeprefix(prefix) for key in keys]) for keys in (given, own))
        raise WeightsMismatch(
            f"{origin} fits nothing in {model.settings.backbone}: it has {there}, the model wants {wanted}; "
            "choose the backbone it was made for"
        )
    wrong = [f"{k} {list(given[k].shape)} for {list(own[k].shape)}" for k in matched if given[k].shape != own[k].shape]
    if wrong:
        raise WeightsMismatch(
            f"{origin} has other shapes than {model.settings.backbone}: {_some(wrong)}; choose the settings it was made for"
        )
    with torch.no_grad():
        for key in matched:
            own[key].copy_(given[key])
    return WeightsReport(
        tuple(matched),
        tuple(key for key in own if key not in given),
        tuple(key.removeprefix(prefix) for key in given if key not in own),
    )


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118  # no mapping
    except OSError as error:
        raise WeightsUnavailable(f"cannot read the weights {path} ({error}): check the path") from error
    except SafetensorError as error:
        raise WeightsMismatch(f"{path} is not a safetensors file, or is damaged ({error}): fetch it again") from error


def _download(backbone: str) -> dict[str, Tensor]:
    """The default weights; their name carries a hash that is checked, and unpickling is limited to tensors."""
    models = import_torchvision().models
    if backbone in LENETS:
        raise WeightsUnavailable(f"torchvision has no weights for {backbone}: train it from the source")
    try:
        best = models.get_model_weights(backbone).DEFAULT
        state: dict[str, Tensor] = best.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (URLError, OSError, RuntimeError) as error:
        raise WeightsUnavailable(
            f"cannot download torchvision's weights for {backbone} ({error}): go online, or give a safetensors file"
        ) from error
    return state


def _some(keys: list[str] | tuple[str, ...], most: int = 5) -> str:
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "") if keys else "nothing"
