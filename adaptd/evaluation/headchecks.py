"""Second opinions by heads on trained features. Kept are the source's features, and of each domain the answers alone.

So a later episode runs no model for a domain that was asked about, and needs the trained weights for new domains only.
"""

import hashlib
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adaptd.evaluation.agreement import SecondOpinion
from adaptd.evaluation.checkfiles import CheckFiles, fingerprint, make_key
from adaptd.evaluation.checkheads import ask_heads, to_unit_length
from adaptd.evaluation.evaluator import view
from adaptd.evaluation.predictions import choose_learned
from adaptd.learning.backbones import Classifier
from adaptd.learning.below import Below
from adaptd.learning.weights import Trained, save_classifier
from adaptd.library.imageset import Gathered, ImageSet, spread_rows

RECIPE = "check heads, 1"
"""Stands for how they answer: another name makes kept answers useless."""
MOST_SOURCE = 4000
"""Images of the source that heads learn from."""


class HeadChecks:
    """Asks heads on the features of a backbone with the weights that it was published with.

    Args:
        source: labelled images.
        classes: how many there are.
        batch_size: of the forward passes.
        files: where answers are kept.
        trained: the weights that the backbone brought.
        below: activations that need not be made again.
    """

    def __init__(
        self,
        source: ImageSet,
        classes: int,
        batch_size: int,
        files: CheckFiles,
        trained: Trained,
        below: Below | None = None,
    ) -> None:
        rows = spread_rows(len(source), MOST_SOURCE)
        assert source.labels is not None
        self._source = ImageSet(source.ids[rows], Gathered([source.pixels], rows), source.labels[rows])
        self._classes, self._batch_size, self._files, self._trained = classes, batch_size, files, trained
        self._below = below
        self._features: dict[str, NDArray[np.float32]] = {}

    def ask(self, name: str, own: ImageSet, images: ImageSet) -> SecondOpinion:
        """About images of a domain that has this name among the files, and is learned from its own images.

        Raises:
            AdaptdError: the weights are needed and cannot be loaded.
        """
        own = choose_learned(own)
        key = make_key(RECIPE, self._trained.name, str(self._classes), *map(fingerprint, (self._source, own, images)))
        answers = self._files.get(name, key, lambda: {"answers": self._answer(own, images)})["answers"]
        first, second, together, taught = answers.long().numpy()
        opinion = SecondOpinion((first, second), together, self._classes, taught)
        return opinion if opinion.is_reliable else SecondOpinion((first, second), together, self._classes)

    def _answer(self, own: ImageSet, images: ImageSet) -> Tensor:
        """Classes, int16 [4, n]."""
        labels = self._source.labels
        assert labels is not None
        known = self._source_features
        answers = ask_heads(known, np.asarray(labels), self._encode(own), self._encode(images), self._classes)
        return torch.from_numpy(np.stack([*answers.each, answers.together, answers.taught]).astype(np.int16))

    @cached_property
    def _model(self) -> Classifier:
        return self._trained.load()

    @cached_property
    def _source_features(self) -> NDArray[np.float32]:
        """By the weights as they are today: a file with others under the same name must not be mixed with them."""
        key = make_key(RECIPE, hashlib.sha256(save_classifier(self._model)).hexdigest(), fingerprint(self._source))

        def make() -> dict[str, Tensor]:
            return {"features": torch.from_numpy(self._encode(self._source)).half()}

        return self._files.get("source", key, make)["features"].float().numpy()

    def _encode(self, images: ImageSet) -> NDArray[np.float32]:
        known = fingerprint(images)
        if known not in self._features:
            self._features[known] = to_unit_length(
                view(self._model, images, self._classes, self._batch_size, self._below).features
            )
        return self._features[known]
