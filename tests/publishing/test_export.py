"""Exported files against the models they come from, on real images; and wrong files, which must not pass."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from adaptd.errors import ExportFailed, ParityFailed
from adaptd.learning.backbones import build_classifier
from adaptd.learning.settings import ModelSettings
from adaptd.project.settings import ExportSettings
from adaptd.publishing.export import Exporter, export_model, export_onnx, prove_model
from adaptd.publishing.parity import TIE, _count_unequal, check_parity
from adaptd.publishing.session import open_session, run_session

DOMAINS = ("synnum", "mnist", "usps", "svhn")


@pytest.fixture(scope="module", params=["lenet5", pytest.param("lenet", marks=pytest.mark.long)])
def model(request, digits, trained):
    """A small one that has seen digits."""
    return trained(request.param, digits("mnist", 320))


@pytest.fixture(scope="module", params=list(Exporter))
def exported(request, model, facts, tmp_path_factory):
    """Its file by each exporter, alone in a folder; and which exporter that was."""
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    export_onnx(model, path, 18, facts(), request.param)
    return path, request.param


def test_small_backbones_answer_as_in_torch(digits, model, exported):
    """On thousands of real images of four domains, at several batch sizes, each exporter's file is the model."""
    path, exporter = exported
    images = {domain: digits(domain, 1500) for domain in DOMAINS}
    parity = check_parity(model, path, images, 1e-4, exporter, images_per_domain=1500)
    assert parity.images == dict.fromkeys(DOMAINS, 1500)
    assert parity.max_error < 1e-5
    assert parity.equal_argmax + parity.ties / sum(parity.images.values()) == 1


def export_and_prove(model, path, settings, facts, images):
    """Both steps, as publishing takes them."""
    exporter = export_model(model, path, settings.opset, facts)
    return prove_model(model, path, settings, facts, images, exporter)


@pytest.mark.parametrize(("backbone", "count"), [pytest.param("resnet18", 300, marks=pytest.mark.long), ("mobilenet_v2", 100)])
def test_large_backbones_answer_as_in_torch(tmp_path, digits, trained, facts, backbone, count):
    """The same for networks with BatchNorm, whose running statistics have moved, with the exporter that is tried first."""
    images = {domain: digits(domain, count) for domain in DOMAINS}
    model = trained(backbone, images["mnist"])
    assert model.training
    parity = export_and_prove(model, tmp_path / "model.onnx", ExportSettings(), facts(), images)
    assert model.training
    assert parity.exporter == "torchscript"
    assert parity.images == dict.fromkeys(DOMAINS, count)
    assert parity.max_error < 1e-4
    assert parity.equal_argmax + parity.ties / (4 * count) == 1


@pytest.mark.parametrize("backbone", ["efficientnet_lite0", "timm:test_convnext"])
def test_timms_backbones_answer_as_in_torch(tmp_path, digits, trained, facts, backbone):
    """The same for timm's networks, on fewer images."""
    images = {domain: digits(domain, 40) for domain in DOMAINS}
    model = trained(backbone, images["mnist"], steps=2)
    parity = export_and_prove(model, tmp_path / "model.onnx", ExportSettings(), facts(), images)
    assert parity.exporter == "torchscript"
    assert parity.max_error < 1e-4
    assert parity.equal_argmax + parity.ties / 160 == 1


def test_the_file_is_described_and_alone(digits, facts, exported):
    """One file with uint8 images of any number in, two outputs, the facts in its metadata, and no path of ours."""
    path, exporter = exported
    assert list(path.parent.iterdir()) == [path]
    session = open_session(path)
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("images", "tensor(uint8)", ["N", 3, 32, 32])
    assert [(out.name, out.shape) for out in session.get_outputs()] == [("logits", ["N", 10]), ("probabilities", ["N", 10])]
    found = session.get_modelmeta().custom_metadata_map
    assert found == facts().to_metadata() | {"adaptd.exporter": str(exporter)}
    assert found["adaptd.classes"] == '["0","1","2","3","4","5","6","7","8","9"]'
    assert found["adaptd.preprocessing"] == '{"image_size":32,"resize":"stretch-bilinear"}'
    assert b"site-packages" not in path.read_bytes()
    assert b"projector" not in path.read_bytes()
    assert run_session(session, digits("mnist", 5).pixels)[1].sum(axis=1) == pytest.approx(np.ones(5), abs=1e-5)


def test_the_same_model_gives_the_same_bytes(tmp_path, digits, trained, facts):
    """Exporting again, as after a kill, gives the hash that was committed."""
    model = trained("lenet5", digits("mnist", 160))
    for name in ("one.onnx", "two.onnx"):
        export_onnx(model, tmp_path / name, 18, facts())
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def swap_two_classes(path):
    """Break a file as an exporter might: two rows of the classifier change places."""
    proto = onnx.load(path)
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name.endswith("classifier.weight"))
    rows = numpy_helper.to_array(weight).copy()
    rows[[3, 4]] = rows[[4, 3]]
    weight.CopyFrom(numpy_helper.from_array(rows, weight.name))
    onnx.save(proto, path)


def test_a_broken_export_is_refused(tmp_path, digits, trained, facts):
    """Two swapped rows of the classifier are found, with figures."""
    images = {"mnist": digits("mnist", 300)}
    model = trained("lenet5", images["mnist"])
    export_onnx(model, tmp_path / "model.onnx", 18, facts())
    swap_two_classes(tmp_path / "model.onnx")
    with pytest.raises(ParityFailed, match=r"on 300 images its probabilities are off by up to .* images get another class"):
        check_parity(model, tmp_path / "model.onnx", images, 1e-4, "torchscript")


def test_weights_in_other_files_are_refused(tmp_path, digits, trained, facts):
    """A file that refers to another one is not a version."""
    model = trained("lenet5", digits("mnist", 160))
    export_onnx(model, tmp_path / "whole.onnx", 18, facts())
    onnx.save(onnx.load(tmp_path / "whole.onnx"), tmp_path / "model.onnx", save_as_external_data=True, size_threshold=0)
    with pytest.raises(ParityFailed, match="keeps weights in other files"):
        check_parity(model, tmp_path / "model.onnx", {"mnist": digits("mnist", 10)}, 1e-4, "dynamo")


def test_a_frozen_batch_is_refused(tmp_path, digits, trained, facts):
    """A file that takes one image at a time only is not a version."""
    model = trained("lenet5", digits("mnist", 160))
    export_onnx(model, tmp_path / "model.onnx", 18, facts())
    proto = onnx.load(tmp_path / "model.onnx")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ParityFailed, match="fixed batch"):
        check_parity(model, tmp_path / "model.onnx", {"mnist": digits("mnist", 10)}, 1e-4, "dynamo")


def test_models_that_answer_nan_are_refused(tmp_path, digits, trained, facts):
    """Torch and ONNX Runtime agreeing on NaN proves nothing."""
    images = digits("mnist", 160)
    model = trained("lenet5", images)
    with torch.no_grad():
        model.classifier.bias[2] = float("nan")
    export_onnx(model, tmp_path / "model.onnx", 18, facts())
    with pytest.raises(ParityFailed, match="NaN"):
        check_parity(model, tmp_path / "model.onnx", {"mnist": images}, 1e-4, "torchscript")


def test_the_other_exporter_steps_in(tmp_path, digits, trained, facts):
    """An opset that tracing cannot write comes from dynamo, and the record says so."""
    images = digits("mnist", 160)
    parity = export_and_prove(
        trained("lenet5", images), tmp_path / "model.onnx", ExportSettings(opset=24), facts(), {"mnist": images}
    )
    assert parity.exporter == "dynamo"
    assert onnx.load(tmp_path / "model.onnx").opset_import[0].version == 24


def test_a_wrong_answer_is_given_to_the_other_exporter(tmp_path, digits, trained, facts):
    """A file that tracing got wrong is written again by dynamo, and that one is proven."""
    images, path = {"mnist": digits("mnist", 300)}, tmp_path / "model.onnx"
    model = trained("lenet5", images["mnist"])
    assert export_model(model, path, 18, facts()) is Exporter.TRACE
    swap_two_classes(path)
    assert prove_model(model, path, ExportSettings(), facts(), images, Exporter.TRACE).exporter == "dynamo"
    swap_two_classes(path)
    with pytest.raises(ParityFailed, match="by exporter dynamo"):
        prove_model(model, path, ExportSettings(), facts(), images, Exporter.DYNAMO)


def test_an_opset_nobody_writes_is_explained(tmp_path, facts):
    """Newer than tracing can, or than there is one: the message names the setting."""
    model = build_classifier(ModelSettings(backbone="lenet5", image_size=32, classes=("a", "b")))
    with pytest.raises(ExportFailed, match=r"torchscript exporter cannot .* at opset 24: change \[export\] opset"):
        export_onnx(model, tmp_path / "model.onnx", 24, facts())
    for exporter in Exporter:
        with pytest.raises(ExportFailed, match=r"there is no opset 99 .*: set \[export\] opset to \d\d or less"):
            export_onnx(model, tmp_path / "model.onnx", 99, facts(), exporter)


def test_only_real_ties_are_excused():
    """A class torch finds as good, within rounding, may win; one it finds clearly worse may not."""
    truth = np.array([[[0.5, 0.5 - TIE / 2, TIE / 2]], [[0.5, 0.4999, 0.0001]], [[0.6, 0.3, 0.1]]], dtype=np.float32)
    answers = truth[:, :, [1, 0, 2]]
    answers[2] = truth[2]
    assert _count_unequal(truth, answers, TIE) == (1, 1)


@pytest.mark.long
def test_exporting_says_nothing(tmp_path):
    """Neither exporter writes to the terminal; what they say is in the debug log."""
    program = (
        "import logging, sys\nfrom pathlib import Path\nfrom datetime import datetime\n"
        "from adaptd.learning.backbones import build_classifier\nfrom adaptd.learning.settings import ModelSettings\n"
        "from adaptd.library.preprocessing import Preprocessing\nfrom adaptd.errors import ExportFailed\n"
        "from adaptd.publishing.card import Facts\nfrom adaptd.publishing.export import Exporter, export_onnx\n"
        "said = []\nlogger = logging.getLogger('adaptd.publishing.export')\nlogger.setLevel(10)\nlogger.propagate = False\n"
        "logger.addHandler(type('H', (logging.Handler,), {'emit': lambda self, record: said.append(record)})())\n"
        "facts = Facts(model='m', version=1, episode=0, domain='source', created_at=datetime(2026, 1, 1), backbone='lenet5',\n"
        "  classes=('a', 'b'), preprocessing=Preprocessing(32), weights_sha256='', config_hash='')\n"
        "model = build_classifier(ModelSettings(backbone='lenet5', image_size=32, classes=('a', 'b')))\n"
        "for exporter in Exporter: export_onnx(model, Path('m.onnx'), 18, facts, exporter)\n"
        "try: export_onnx(model, Path('m.onnx'), 99, facts)\nexcept ExportFailed: pass\n"
        "assert said\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
