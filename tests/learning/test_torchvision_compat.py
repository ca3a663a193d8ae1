"""The door to torchvision."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = """
import torch
from adaptd.learning.torchvision_compat import _extension_loads, import_torchvision
loads = _extension_loads()
torchvision = import_torchvision()
assert import_torchvision() is torchvision
assert torchvision.models.resnet18(num_classes=3)(torch.zeros(2, 3, 32, 32)).shape == (2, 3)
print("loads" if loads else "cannot load")
"""

ELSEWHERE = """
import torch
from adaptd.learning.torchvision_compat import import_torchvision
assert import_torchvision().ELSEWHERE
print(hasattr(torch.ops.torchvision, "nms"))
"""


def run(script: str, *paths: Path) -> str:
    """What a fresh interpreter prints, with these folders first on its path."""
    path = os.pathsep.join([*map(str, paths), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def package_with_extension(folder: Path, extension: bytes) -> Path:
    """A stand-in package named torchvision, with this file as its extension."""
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text("ELSEWHERE = True\n")
    (folder / "torchvision" / "_C.so").write_bytes(extension)
    return folder


def test_torchvision_imports_on_this_machine():
    """A torchvision model builds and runs here, whether or not the extension loads."""
    assert run(HERE) in {"loads", "cannot load"}


@pytest.mark.long
def test_the_door_is_needed_only_where_the_extension_cannot_load():
    """A bare import fails exactly where the extension cannot load."""
    plain = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, check=False)
    assert (plain.returncode == 0) == (run(HERE) == "loads")


def test_nothing_is_defined_where_the_extension_loads(tmp_path):
    """Beside an extension that loads, the door defines no operator of its own."""
    loadable = Path(np.random.bit_generator.__file__)
    assert run(ELSEWHERE, package_with_extension(tmp_path, loadable.read_bytes())) == "False"


def test_operators_are_defined_where_the_extension_cannot_load(tmp_path):
    """Beside an extension that cannot load, the door describes the operators torchvision's import asks for."""
    assert run(ELSEWHERE, package_with_extension(tmp_path, b"not a library")) == "True"
