"""The one door to torchvision, and to timm, which imports it. What it builds belongs to `backbones`.

PyPI's torchvision links CUDA libraries. Beside a CPU build of torch its extension cannot load, and `import torchvision`
fails while it describes two operators (non-maximum suppression) that no classifier uses.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch

from adaptd.errors import ConfigError
from adaptd.learning.origins import INSTALL_EXTRA

_OPERATORS = (
    ("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
    ("torchvision::qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
)


def import_torchvision() -> ModuleType:
    """Torchvision, importable whether or not its extension loads."""
    if "torchvision" not in sys.modules and not _extension_loads():
        for name, schema in _OPERATORS:
            if not _is_defined(name):
                torch.library.define(name, schema)
    return importlib.import_module("torchvision")


def import_timm() -> ModuleType:
    """Timm, if the extra by that name is installed."""
    if importlib.util.find_spec("timm") is None:
        raise ConfigError(f"this backbone needs the package timm: {INSTALL_EXTRA}")
    import_torchvision()
    return importlib.import_module("timm")


def _extension_loads() -> bool:
    """Load torchvision's operators if this machine can; the import of torchvision then finds them there."""
    package = importlib.util.find_spec("torchvision")
    if package is None or package.origin is None:
        return True  # not installed: let the import say so
    finder = importlib.machinery.FileFinder(
        str(Path(package.origin).parent),
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    )
    extension = finder.find_spec("_C")
    if extension is None or extension.origin is None:
        return False
    try:
        torch.ops.load_library(extension.origin)  # type: ignore[no-untyped-call]  # torch has no type for it
    except OSError:
        return False
    return True


def _is_defined(name: str) -> bool:
    namespace, operator = name.split("::")
    return hasattr(getattr(torch.ops, namespace), operator)
