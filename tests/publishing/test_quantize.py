"""Int8 models: smaller, nearly as good, and not published where they are not."""

import hashlib
import subprocess
import sys

import numpy as np
import onnx
import pytest

from adaptd.errors import ExportFailed
from adaptd.library.imageset import ImageSet
from adaptd.publishing.card import Card, software_versions
from adaptd.publishing.export import export_onnx
from adaptd.publishing.quantize import Quantized, quantize
from adaptd.publishing.repository import ModelRepository
from adaptd.publishing.session import open_session
from adaptd.publishing.triton import quantized_name


@pytest.fixture(scope="module")
def exported(tmp_path_factory, digits, trained, facts):
    """A float file and the images it was trained on."""
    images, path = digits("mnist", 1500), tmp_path_factory.mktemp("exported") / "float.onnx"
    export_onnx(trained("lenet", images, 60), path, 18, facts())
    return path, images


def test_int8_is_smaller_and_nearly_as_good(tmp_path, exported, digits, facts):
    """A quarter of the size, the same accuracy within a point or so; published under its own name with its own card."""
    path, images = exported
    repository = ModelRepository(tmp_path / "models", quantized_name("digits"), tmp_path / "staging")
    own = facts(model=quantized_name("digits"))
    folder = repository.prepare(1)
    output = folder / "model.onnx"
    found = quantize(path, output, [images, digits("usps", 300)], images, own, max_loss=0.02)
    assert found.gate.passed
    assert found.quantization.calibration_images == 512
    assert found.quantization.float_accuracy > 0.9
    assert found.quantization.agreement == found.parity.equal_argmax > 0.95
    assert output.stat().st_size < 0.3 * path.stat().st_size
    assert open_session(output).get_modelmeta().custom_metadata_map["adaptd.model"] == "digits-int8"
    assert open_session(output).get_inputs()[0].shape == ["N", 3, 32, 32]
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load(output).graph.node)

    sha256 = hashlib.sha256(output.read_bytes()).hexdigest()
    (folder / "card.json").write_text(_card(own, found, sha256).to_text(), encoding="utf-8")
    repository.publish(1, sha256)
    assert repository.verify(1).quantization == found.quantization


def _card(facts, found: Quantized, sha256: str) -> Card:
    figures = {"gate": found.gate, "parity": found.parity, "quantization": found.quantization}
    return Card(**dict(facts), **figures, model_sha256=sha256, versions=software_versions())


def test_int8_that_loses_too_much_does_not_pass(tmp_path, exported, facts):
    """Calibrated on black images, its ranges fit nothing; the reason has the figures."""
    path, images = exported
    black = ImageSet(images.ids[:64], np.zeros_like(images.pixels[:64]))
    found = quantize(path, tmp_path / "int8.onnx", [black], images, facts(), max_loss=0.02)
    assert not found.gate.passed
    (reason,) = found.gate.reasons
    assert "in int8 and" in reason
    assert reason.endswith("allowed: 2 points.")


def test_what_cannot_be_quantised_is_explained(tmp_path, exported, facts):
    """A damaged file ends in an error that names the setting."""
    (path, images), damaged = exported, tmp_path / "damaged.onnx"
    damaged.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ExportFailed, match="quantize = false"):
        quantize(damaged, tmp_path / "int8.onnx", [images], images, facts(), max_loss=0.02)


def test_quantising_says_nothing_and_leaves_logging_alone(tmp_path, exported):
    """ONNX Runtime's tools neither print nor give the root logger a handler."""
    path, images = exported
    np.savez(tmp_path / "images.npz", x=images.pixels[:64], y=images.labels[:64])
    program = (
        "import logging, numpy as np\nfrom pathlib import Path\nfrom datetime import datetime\n"
        "from adaptd.library.imageset import ImageSet\nfrom adaptd.library.preprocessing import Preprocessing\n"
        "from adaptd.publishing.card import Facts\nfrom adaptd.publishing.quantize import quantize\n"
        "facts = Facts(model='m', version=1, episode=0, domain='source', created_at=datetime(2026, 1, 1), backbone='lenet',\n"
        "  classes=('a', 'b'), preprocessing=Preprocessing(32), weights_sha256='', config_hash='')\n"
        "file = np.load('images.npz')\nimages = ImageSet(np.arange(64), file['x'], file['y'])\n"
        f"quantize(Path({str(path)!r}), Path('int8.onnx'), [images], images, facts, 1.0)\n"
        "assert logging.getLogger().handlers == []\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
