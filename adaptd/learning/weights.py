"""Weights in and out of a classifier: safetensors only. What the classifier is made of belongs to `backbones`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors.torch import save
from torch import Tensor

from adaptd.errors import WeightsMismatch
from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.origins import ORIGINS, TORCHVISION, find_origin
from adaptd.learning.pretrained import load_pretrained
from adaptd.learning.settings import ModelSettings
from adaptd.learning.tensors import read_tensors

__all__ = ["TORCHVISION", "Trained", "WeightsReport", "find_trained", "load_classifier", "load_weights", "save_classifier"]
FORMAT = "adaptd.model/1"


@dataclass(frozen=True, slots=True)
class WeightsReport:
    """What loading did: keys of the model that were filled and left as they were, keys of the file not used."""

    matched: tuple[str, ...]
    fresh: tuple[str, ...]
    unexpected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trained:
    """The weights that a backbone brought, before anything was learned here.

    Args:
        settings: of the model.
        weights: a safetensors file, or one of `ORIGINS`.
    """

    settings: ModelSettings
    weights: Path | str

    @property
    def name(self) -> str:
        """Another one has other features."""
        model = self.settings
        return f"{model.backbone} {self.weights} {model.image_size} {model.mean} {model.std}"

    def load(self) -> Classifier:
        """A classifier with these weights; raises what `load_weights` does."""
        model = build_classifier(self.settings)
        load_weights(model, self.weights)
        return model


def find_trained(settings: ModelSettings, root: Path) -> Trained | None:
    """What a model started from, in a project's folder; None for random weights, and for LeNets."""
    if not settings.weights or find_origin(settings.backbone) is None:
        return None
    return Trained(settings, settings.weights if settings.weights in ORIGINS else root / settings.weights)


def load_weights(model: Classifier, weights: Path | str) -> WeightsReport:
    """Fill a classifier from weights with the backbone's key names or our own.

    Args:
        model: changed only if everything fits.
        weights: a safetensors file, or one of `ORIGINS`.

    Raises:
        ConfigError: nothing is published for the backbone, or a package is missing.
        WeightsMismatch: a shape differs, or not one key fits.
        WeightsUnavailable: the file cannot be read, or the weights cannot be fetched.
    """
    if isinstance(weights, str) and weights in ORIGINS:
        given = load_pretrained(model.settings.backbone, weights)
    else:
        given = read_tensors(Path(weights))[0]
    prefixed = {f"encoder.{key}": value for key, value in given.items()}
    # A backbone may have an `encoder.` or a `classifier.` of its own: what fits better is meant.
    ours = len(given.keys() & _state(model).keys()) > len(prefixed.keys() & _state(model).keys())
    return _fill(model, given if ours else prefixed, str(weights), "" if ours else "encoder.")


def save_classifier(model: Classifier) -> bytes:
    """The weights with the settings they belong to, as the bytes of a safetensors file."""
    tensors = {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in _state(model).items()}
    # One entry: of several, safetensors draws the order anew in every process, and equal weights would have other bytes.
    return save(tensors, metadata={FORMAT: model.settings.model_dump_json()})


def load_classifier(path: Path) -> Classifier:
    """The classifier that `save_classifier` wrote, built from the settings inside the file."""
    tensors, metadata = read_tensors(path)
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


def _some(keys: list[str] | tuple[str, ...], most: int = 5) -> str:
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "") if keys else "nothing"
