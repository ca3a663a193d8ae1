"""The models of versions for the length of one piece of work: each is loaded once, and run over the images once."""

from collections.abc import Sequence

from adaptd.evaluation.predictions import DomainImages, Predictions, predict_domains
from adaptd.learning.backbones import Classifier
from adaptd.learning.below import Below
from adaptd.pace import Seen, ignore
from adaptd.project.layout import Layout
from adaptd.records import Domain, Version
from adaptd.releases.weights import load_version


class VersionModels:
    """Models and their predictions, by the hash of their weights: a version that was brought back is no other model.

    Ask it for few: it keeps every model until it goes itself.
    """

    def __init__(
        self,
        layout: Layout,
        images: DomainImages,
        batch_size: int,
        seen: Seen = ignore,
        device: str = "cpu",
        below: Below | None = None,
    ) -> None:
        self._layout, self._images, self._batch_size, self._seen = layout, images, batch_size, seen
        self._device, self._below = device, below
        self._models: dict[str, Classifier] = {}
        self._predictions: dict[str, Predictions] = {}

    def load(self, version: Version) -> Classifier:
        """The model of a version; not to be trained."""
        if version.weights_sha256 not in self._models:
            self._models[version.weights_sha256] = load_version(self._layout, version).to(self._device)
        return self._models[version.weights_sha256]

    def predict(self, version: Version, domains: Sequence[Domain] | None = None) -> Predictions:
        """What it predicts on all domains; or at least on the source and those given."""
        known = self._predictions.get(version.weights_sha256)
        if known is not None:
            return known
        model = self.load(version)
        predictions = predict_domains(model, self._images, self._batch_size, domains, self._seen, self._below)
        if domains is None:
            self._predictions[version.weights_sha256] = predictions
        return predictions
