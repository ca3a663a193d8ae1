"""Training a part of a model: the cut, the activations below it on disk, and that nothing but time is different."""

import errno
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from adaptd.errors import ConfigError
from adaptd.learning import quick
from adaptd.learning.activations import change_view
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.cut import cut, find_last_stage
from adaptd.learning.depth import choose_depth, make_ready
from adaptd.learning.loop import Training
from adaptd.learning.methods.registry import list_methods
from adaptd.learning.plan import Plan
from adaptd.learning.settings import ModelSettings
from adaptd.learning.weights import save_classifier


@pytest.fixture
def data(squares):
    """A source, a memory, a tinted target and some held-out images."""
    return EpisodeData(
        squares(36, 0), (squares(9, 1000, tint=20),), squares(40, 3000, tint=60, labelled=False), squares(12, 5000)
    )


def start(settings, data, folder, method="guarded", model=None, seed=1):
    """An episode on a part of a model, with the whole of it."""
    plan = Plan.for_source(settings) if method == "supervised" else Plan.for_adaptation(settings, method)
    model = model or build_classifier(settings.model, seed=seed)
    ready = make_ready(model, data, plan, folder)
    return Training(ready.model, ready.data, ready.plan), model


def partly(settings, depth="last-stage", backbone="mobilenet_v2", **more):
    """Settings with a depth, for both kinds of episodes; nothing is refused."""
    chosen = settings(backbone, {"guarded": {"min_agreement": 0.0}, "self_training": {"min_agreement": 0.0}}, depth=depth, **more)
    return chosen.model_copy(update={"source": chosen.source.model_copy(update={"depth": depth})})


@pytest.mark.parametrize(
    ("backbone", "size"),
    [("lenet", 32), ("mobilenet_v2", 32), ("resnet18", 64), ("efficientnet_lite0", 64), ("timm:convnext_atto", 64)],
)
@pytest.mark.parametrize("depth", ["last-stage", "classifier"])
def test_both_parts_together_are_the_whole(backbone, size, depth):
    """What is above the cut, of what is below it, gives the logits of the whole model, in its own parameters."""
    model = build_classifier(ModelSettings(backbone=backbone, image_size=size, classes=("a", "b")), seed=3).eval()
    parts, images = cut(model, depth), torch.rand(3, 3, size, size)
    with torch.no_grad():
        between = parts.lower(images)
        assert between.shape[1:] == parts.shape
        torch.testing.assert_close(parts.upper(between), model(images), rtol=1e-4, atol=1e-5)
    own = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for part in (parts.lower, parts.upper) for parameter in part.parameters()} == own
    trained = {id(parameter) for parameter in parts.upper.encoder.parameters()}
    assert trained.isdisjoint({id(parameter) for parameter in parts.lower.parameters()})
    assert bool(trained) == (depth == "last-stage")


def test_a_backbone_without_stages_is_told():
    """A transformer has one resolution: its last stage cannot be found, its classifier can be trained."""
    model = build_classifier(ModelSettings(backbone="timm:vit_tiny_patch16_224", image_size=224, classes=("a", "b")))
    assert find_last_stage(model) is None
    with pytest.raises(ConfigError, match='"classifier" or "all"'):
        cut(model, "last-stage")


def test_a_cached_step_has_the_gradient_of_an_uncached_one(settings, data, tmp_path):
    """Through the whole model, the same views give the same gradient above the cut, as near as half precision is."""
    training, model = start(partly(settings, backbone="resnet18"), data, tmp_path / "activations")
    view, rows = 2, np.arange(32)  # the first piece that is written
    cached = training.data.source.read(rows, view)
    images = change_view(torch.from_numpy(data.source.pixels[:32]), training.plan, "source", view, 0)
    labels = torch.from_numpy(data.source.labels[:32])
    parameters = [*training.model.encoder.parameters(), *training.model.classifier.parameters()]
    gradients = []
    for network, given in ((training.model.eval(), cached), (model.eval(), images)):
        loss = functional.cross_entropy(network(given), labels)
        gradients.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, parameters)]))
    assert functional.cosine_similarity(*gradients, dim=0) > 0.9999
    assert (gradients[0] - gradients[1]).norm() < 0.01 * gradients[1].norm()


@pytest.mark.parametrize(
    ("method", "backbone"),
    [*((name, "lenet") for name in list_methods()), *((name, "mobilenet_v2") for name in ("guarded", "dada", "supervised"))],
)
def test_what_is_below_the_cut_stays(settings, data, tmp_path, method, backbone):
    """Every method trains above the cut alone; BatchNorm below it keeps its statistics."""
    training, model = start(partly(settings, backbone=backbone, epochs=1), data, tmp_path / "activations", method)
    lower = cut(model, "last-stage").lower
    kept = {id(value) for value in (*lower.parameters(), *lower.buffers())}
    below = {name for name, value in (*model.named_parameters(), *model.named_buffers()) if id(value) in kept}
    assert any(name.startswith("encoder.") for name in below)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    list(training)
    training.finish()
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert below.isdisjoint(changed)
    assert bool(changed) == (method != "source-only")


@pytest.mark.parametrize(
    ("method", "backbone", "lost"),
    [
        ("guarded", "lenet5", False),
        ("guarded", "lenet5", True),
        ("grcl", "lenet5", False),
        pytest.param("supervised", "mobilenet_v2", False, marks=pytest.mark.long),
    ],
)
def test_a_resumed_episode_ends_bit_identical(settings, data, tmp_path, method, backbone, lost, monkeypatch):
    """Stopped and resumed, with its activations or with some of them to be made again: the same weights."""
    monkeypatch.setattr(quick, "ENOUGH", 0)  # every look by ONNX Runtime, as with many images
    chosen = partly(settings, backbone=backbone)
    whole, expected = start(chosen, data, tmp_path / "whole", method)
    list(whole)
    stopped, _ = start(chosen, data, tmp_path / "stopped", method)
    for _ in zip(range(3), stopped, strict=False):
        pass
    state = stopped.state()
    if lost:
        (tmp_path / "stopped" / "source-1.f16").unlink()
    resumed, model = start(chosen, data, tmp_path / "stopped", method)
    resumed.restore(state)
    list(resumed)
    assert save_classifier(model) == save_classifier(expected)
    assert {**resumed.finish().report, "seconds": 0} == {**whole.finish().report, "seconds": 0}


def test_activations_of_other_weights_are_made_again(settings, data, tmp_path):
    """Files in the folder count only for the model that they were made with."""
    one, _ = start(partly(settings), data, tmp_path, seed=1)
    first = one.data.source.views[0].copy()
    other, _ = start(partly(settings), data, tmp_path, seed=2)
    assert not np.array_equal(first, other.data.source.views[0])
    again, _ = start(partly(settings), data, tmp_path, seed=1)
    assert np.array_equal(first, again.data.source.views[0])


@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    run = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"needs to mount a tmpfs, which is not allowed here: {run.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_told_before_anything_is_written(settings, data, small_disk):
    """Where activations do not fit, the error says how much they need and what else to do; nothing fills the disk."""
    with pytest.raises(OSError, match=r"activations of all images need .* make room, or set training.depth") as problem:
        start(partly(settings), data, small_disk / "activations")
    assert problem.value.errno == errno.ENOSPC
    assert not list((small_disk / "activations").glob("*.f16"))


def test_auto_chooses(settings, data, squares):
    """Small networks and images, and those with random weights, are trained whole; photographs above the cut."""

    def choose(backbone, size, weights="", method="guarded", device="cpu"):
        model = build_classifier(ModelSettings(backbone=backbone, image_size=size, classes=("r", "g", "b"), weights=weights))
        made = settings(backbone)
        plan = Plan.for_source(made) if method == "supervised" else Plan.for_adaptation(made, method)
        return choose_depth(model, data, replace(plan, device=device))[0]

    assert choose("lenet", 224) == "all"
    assert choose("resnet18", 32) == "all"
    assert choose("resnet18", 96) == "last-stage"
    assert choose("resnet18", 96, device="cuda") == "all"
    assert choose("resnet18", 96, method="supervised") == "all"
    assert choose("resnet18", 96, "torchvision", method="supervised") == "last-stage"
    assert choose("timm:vit_tiny_patch16_224", 224) == "all"


def test_a_method_that_trains_the_encoder_alone_is_told(settings, data, tmp_path):
    """With nothing left to train, the error names the remedy."""
    with pytest.raises(ConfigError, match=r"mcd trains the encoder: set training.depth"):
        start(partly(settings, "classifier"), data, tmp_path, "mcd")
    list(start(partly(settings, "classifier", epochs=1), data, tmp_path)[0])
