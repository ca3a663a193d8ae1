"""The classifier: encoder f, projector q and linear classifier h, for a backbone named in the settings.

Reading and writing weights is `weights`' business.
"""

import difflib
import warnings
from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

from adaptd.errors import ConfigError
from adaptd.learning.devices import has_fast_halves
from adaptd.learning.origins import EFFICIENTNET_LITE0, LENETS, TIMM_PREFIX
from adaptd.learning.settings import ModelSettings
from adaptd.learning.torchvision_compat import import_timm, import_torchvision
from adaptd.pace import Seen, ignore


class Classifier(nn.Module):
    """f, q and h. Takes float images [n, 3, H, W] in 0…1 and normalises them itself.

    Who looks at many images without learning from them tells `seen`, so that people see how far that is.

    Args:
        settings: what it was built from, with its classes in output order.
        encoder: maps normalised images to feature vectors.
        features: their length.
    """

    mean: Tensor
    std: Tensor
    seen: Seen = staticmethod(ignore)

    def __init__(self, settings: ModelSettings, encoder: nn.Module, features: int) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = encoder
        self.projector = nn.Sequential(
            nn.Linear(features, settings.projector_hidden),
            nn.ReLU(inplace=True),
            nn.Linear(settings.projector_hidden, settings.projector_output),
        )
        self.classifier = nn.Linear(features, len(settings.classes))
        # Not part of the weights: the settings travel with them and say the same.
        self.register_buffer("mean", torch.tensor(settings.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(settings.std).view(3, 1, 1), persistent=False)

    def encode(self, images: Tensor) -> Tensor:
        """f(x), [n, features]."""
        taken = self.normalise(images)
        features: Tensor
        if torch.is_grad_enabled() and has_fast_halves(images.device):  # looks and evaluations stay exact
            with torch.autocast(images.device.type, dtype=torch.bfloat16):
                features = self.encoder(taken)
            return features.float()
        features = self.encoder(taken)
        return features

    def normalise(self, images: Tensor) -> Tensor:
        """What the encoder takes."""
        # Channels last: up to a third faster, there and back (benchmarks/channels_last.py).
        return ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def embed(self, features: Tensor) -> Tensor:
        """normalise(q(f)), [n, projector_output]: what the bank holds."""
        return functional.normalize(self.projector(features), dim=1)

    def classify(self, features: Tensor) -> Tensor:
        """h(f), [n, classes]."""
        logits: Tensor = self.classifier(features)
        return logits

    def forward(self, images: Tensor) -> Tensor:
        """Logits, [n, classes]."""
        return self.classify(self.encode(images))


class Encoding(nn.Module):
    """A classifier's encoder as a module: images to features."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, images: Tensor) -> Tensor:
        """f(x)."""
        return self.model.encode(images)


def build_classifier(settings: ModelSettings, seed: int = 0) -> Classifier:
    """A fresh classifier; the same seed gives the same weights.

    Raises:
        ConfigError: the backbone is unknown, or cannot work at this image size; or no classes are named.
    """
    if not settings.classes:
        raise ConfigError("the model has no classes: name them in [model] classes, or import a source folder")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = _build_encoder(settings)
        return Classifier(settings, encoder, _feature_length(encoder, settings))


def check_backbone(name: str) -> None:
    """Raise ConfigError, with the nearest names, where no such backbone can be built here."""
    if name == EFFICIENTNET_LITE0 or name.startswith(TIMM_PREFIX):
        check_timm(name.removeprefix(TIMM_PREFIX))
    elif name not in LENETS:
        check_torchvision(name)


def check_torchvision(name: str) -> None:
    """Raise ConfigError, with the nearest names, where torchvision has no such classification model."""
    models = import_torchvision().models
    known = models.list_models(module=models)
    if name not in known:
        near = difflib.get_close_matches(name, [*LENETS, EFFICIENTNET_LITE0, *known], n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "see torchvision.models.list_models()"
        raise ConfigError(f"there is no backbone named {name!r}: {hint}")


def check_timm(name: str) -> None:
    """The same for timm, whose hub has names that it would load unseen."""
    timm = import_timm()
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(TIMM_PREFIX + one for one in near)}?" if near else "see timm.list_models()"
        raise ConfigError(f"timm has no backbone named {name!r}: {hint}")


def _build_encoder(settings: ModelSettings) -> nn.Module:
    name = settings.backbone
    if name in LENETS:
        return _lenet(settings)
    if name == EFFICIENTNET_LITE0 or name.startswith(TIMM_PREFIX):
        return _timm_encoder(name.removeprefix(TIMM_PREFIX))
    return _torchvision_encoder(name)


def _lenet(settings: ModelSettings) -> nn.Module:
    first, second, hidden = LENETS[settings.backbone]
    side = ((settings.image_size - 4) // 2 - 4) // 2
    if side < 1:
        raise ConfigError(f"{settings.backbone} needs images of at least 16 pixels, not {settings.image_size}")
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, first, 5),
        pool1=nn.MaxPool2d(2),
        relu1=nn.ReLU(inplace=True),
        conv2=nn.Conv2d(first, second, 5),
        pool2=nn.MaxPool2d(2),
        relu2=nn.ReLU(inplace=True),
        flatten=nn.Flatten(),
    )
    width = second * side * side
    for number, size in enumerate(hidden, 1):
        layers[f"fc{number}"] = nn.Linear(width, size)
        layers[f"fc{number}_relu"] = nn.ReLU(inplace=True)
        width = size
    return nn.Sequential(layers)


def _torchvision_encoder(name: str) -> nn.Module:
    """A torchvision classification model without its last linear layer."""
    check_torchvision(name)
    models = import_torchvision().models
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # about initialisations to come
        network: nn.Module = models.get_model(name, weights=None)
    for auxiliary in ("aux1", "aux2", "AuxLogits"):  # second outputs that two old models have while training
        if hasattr(network, auxiliary):
            network.__dict__["aux_logits"] = False
            setattr(network, auxiliary, None)
    linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError(f"backbone {name} has no final linear layer to replace; choose another")
    parent, _, child = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), child, nn.Identity())
    return network


def _timm_encoder(name: str) -> nn.Module:
    """A timm model that ends with its pooled features."""
    check_timm(name)
    network: nn.Module = import_timm().create_model(name, num_classes=0)
    return network


def _feature_length(encoder: nn.Module, settings: ModelSettings) -> int:
    """Found by a trial run, which also proves that the backbone can work at this image size."""
    size = settings.image_size
    was_training = encoder.training
    try:
        with torch.no_grad():
            features = encoder.eval()(torch.zeros(1, 3, size, size))
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"backbone {settings.backbone} cannot take images of {size} pixels: change [model] image_size ({reason})"
        ) from error
    finally:
        encoder.train(was_training)
    return int(features.shape[1])
