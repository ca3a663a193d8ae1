"""Classifiers by backbone name, and their weights."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from adaptd.errors import ConfigError, WeightsMismatch, WeightsUnavailable
from adaptd.learning.backbones import build_classifier
from adaptd.learning.settings import ModelSettings
from adaptd.learning.torchvision_compat import import_torchvision
from adaptd.learning.weights import load_classifier, load_weights, save_classifier

DATA = Path(os.environ.get("ADAPTD_BENCH_DATA", "../shared/data"))
CLASSES = ("a", "b", "c")


def settings(backbone: str, size: int = 32, **others) -> ModelSettings:
    """Model settings with three classes and a small projector."""
    return ModelSettings(backbone=backbone, image_size=size, classes=CLASSES, projector_hidden=16, projector_output=8, **others)


@pytest.mark.parametrize(
    ("backbone", "features"),
    [
        ("lenet5", 84),
        ("lenet", 500),
        ("resnet18", 512),
        ("mobilenet_v2", 1280),
        ("googlenet", 1024),
        ("mobilenet_v3_small", 1024),
        ("efficientnet_lite0", 1280),
        ("timm:test_resnet", 96),
    ],
)
def test_backbones_encode_project_and_classify(backbone, features):
    """Each backbone yields features, unit projections and logits, while training and not; its trial run leaves no mark."""
    model = build_classifier(settings(backbone))
    assert all(module.training for module in model.modules())
    for mode in (True, False):
        encoded = model.train(mode).encode(torch.rand(2, 3, 32, 32))
        assert encoded.shape == (2, features)
        torch.testing.assert_close(model.embed(encoded).norm(dim=1), torch.ones(2))
        assert model.classify(encoded).shape == (2, 3)


def test_lenet_works_at_other_sizes():
    """LeNet takes 28-pixel images as well."""
    assert build_classifier(settings("lenet5", 28))(torch.rand(1, 3, 28, 28)).shape == (1, 3)


def test_images_are_normalised_inside():
    """An image that is the mean everywhere reaches the encoder as zeros."""
    model = build_classifier(settings("lenet5", mean=(0.2, 0.4, 0.6))).eval()
    image = torch.tensor([0.2, 0.4, 0.6]).view(1, 3, 1, 1).expand(1, 3, 32, 32)
    torch.testing.assert_close(model.encode(image), model.encoder(torch.zeros(1, 3, 32, 32)))


def test_the_same_seed_gives_the_same_weights():
    """Fresh weights depend on the seed alone, and torch's own random state is left as it was."""
    state = torch.get_rng_state()
    first, again, other = (build_classifier(settings("lenet5"), seed) for seed in (1, 1, 2))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(first.classifier.weight, again.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


@pytest.mark.parametrize(
    ("backbone", "size", "message"),
    [
        ("resnet81", 32, "did you mean resnet18"),
        ("lenet_5", 32, "did you mean lenet5"),
        ("efficientnet_lite", 32, "did you mean efficientnet_lite0"),
        ("timm:resnet81", 32, "did you mean timm:resnet"),
        ("timm:hf-hub:someone/model", 32, "timm has no backbone named"),
        ("zzz", 32, "no backbone named 'zzz'"),
        ("lenet5", 12, "at least 16 pixels"),
        ("vit_b_16", 32, "cannot take images of 32 pixels"),
        ("squeezenet1_0", 32, "no final linear layer"),
    ],
)
def test_wrong_backbones_are_explained(backbone, size, message):
    """An unknown name suggests the nearest, and a size the backbone cannot work at is said clearly."""
    with pytest.raises(ConfigError, match=message):
        build_classifier(settings(backbone, size))


def test_a_classifier_needs_classes():
    """Without class names there is nothing to build."""
    with pytest.raises(ConfigError, match="no classes"):
        build_classifier(ModelSettings(backbone="lenet5", image_size=32))


def test_saved_classifiers_come_back_whole(tmp_path):
    """A saved classifier is rebuilt from its file alone: settings, weights and BatchNorm statistics."""
    model = build_classifier(settings("mobilenet_v3_small", mean=(0.1, 0.2, 0.3)), seed=3)
    model(torch.rand(4, 3, 32, 32))  # moves the BatchNorm statistics
    path = tmp_path / "weights.safetensors"
    path.write_bytes(save_classifier(model))
    again = load_classifier(path)
    assert again.settings == model.settings
    for (name, one), (_, two) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(one, two), name
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(model.eval()(images), again.eval()(images))


def test_torchvision_names_fill_the_encoder(tmp_path):
    """A file with torchvision's keys fills the encoder; the head it brings is named as unexpected, ours stays fresh."""
    donor = build_classifier(settings("resnet18"), seed=1)
    tensors = {k.removeprefix("encoder."): v for k, v in donor.state_dict().items() if k.startswith("encoder.")}
    save_file(tensors | {"fc.weight": torch.zeros(1000, 512)}, tmp_path / "w.safetensors")
    model = build_classifier(settings("resnet18"), seed=2)
    report = load_weights(model, tmp_path / "w.safetensors")
    assert len(report.matched) == len(tensors)
    assert report.unexpected == ("fc.weight",)
    assert all(key.startswith(("projector.", "classifier.")) for key in report.fresh)
    assert torch.equal(model.encoder.conv1.weight, donor.encoder.conv1.weight)


def test_real_mobilenet_features_fit():
    """The ImageNet features of MobileNetV2 fill the whole encoder."""
    path = DATA / "weights" / "mobilenet_v2_imagenet_features.safetensors"
    if not path.exists():
        pytest.skip(f"no weights at {path}: set ADAPTD_BENCH_DATA")
    report = load_weights(build_classifier(settings("mobilenet_v2")), path)
    assert len(report.matched) == 312
    assert report.unexpected == ()
    assert not any(key.startswith("encoder.") for key in report.fresh)


def test_weights_that_do_not_fit_change_nothing(tmp_path):
    """A wrong shape, or no key in common, is refused by name, and the model stays as it was."""
    model = build_classifier(settings("lenet5"))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    good = {k.removeprefix("encoder."): torch.zeros_like(v) for k, v in before.items() if k.startswith("encoder.")}
    save_file(good | {"conv2.weight": torch.zeros(1, 2)}, tmp_path / "shape.safetensors")
    with pytest.raises(WeightsMismatch, match=r"encoder.conv2.weight \[1, 2\] for \[16, 6, 5, 5\]"):
        load_weights(model, tmp_path / "shape.safetensors")
    save_file({"layer9.weight": torch.zeros(1)}, tmp_path / "nothing.safetensors")
    with pytest.raises(WeightsMismatch, match=r"it has layer9.weight, the model wants conv1.weight"):
        load_weights(model, tmp_path / "nothing.safetensors")
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_unreadable_weights_are_explained(tmp_path):
    """A missing file, a damaged one, one that adaptd did not save: each says what it is."""
    model = build_classifier(settings("lenet5"))
    with pytest.raises(WeightsUnavailable, match="cannot read"):
        load_weights(model, tmp_path / "absent.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\x80\x04 not safetensors")
    with pytest.raises(WeightsMismatch, match="not a safetensors file"):
        load_weights(model, tmp_path / "bad.safetensors")
    save_file({"conv1.weight": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(WeightsMismatch, match="not a classifier of adaptd"):
        load_classifier(tmp_path / "other.safetensors")


def test_names_like_ours_are_no_obstacle(tmp_path):
    """DenseNet has a `classifier.weight` of its own: torchvision's names still fill the encoder."""
    donor = import_torchvision().models.get_model("densenet121", weights=None)
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    report = load_weights(build_classifier(settings("densenet121")), tmp_path / "w.safetensors")
    assert not any(key.startswith("encoder.") for key in report.fresh)
    assert set(report.unexpected) == {"classifier.weight", "classifier.bias"}
