"""Second opinions about domains without labels: which check models are asked is decided here, and nowhere else."""

import logging
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from adaptd.errors import AdaptdError
from adaptd.evaluation.agreement import SecondOpinion
from adaptd.evaluation.checkfiles import CheckFiles
from adaptd.evaluation.headchecks import HeadChecks
from adaptd.evaluation.netchecks import NetChecks
from adaptd.evaluation.predictions import choose_learned
from adaptd.learning.below import Below
from adaptd.learning.weights import Trained
from adaptd.library.imageset import ImageSet
from adaptd.records import Domain

log = logging.getLogger(__name__)


class CheckedImages(Protocol):
    """The images that check models learn from and are asked about."""

    @property
    def source(self) -> Domain:
        """Domain 0."""

    def open_train(self, domain: Domain) -> ImageSet:
        """A domain's own images; the source's have labels."""

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """The images that estimates are made on."""


class Checks:
    """What check models say, by domain. Nothing is trained where nobody asks, or where it was before.

    Args:
        images: of all domains.
        classes: how many there are.
        batch_size: of the forward passes.
        files: keeps what they learned; None: it is not kept.
        trained: the weights that the model's backbone brought: heads on its features are asked then. None: small networks are.
        below: activations that need not be made again for that.
    """

    def __init__(
        self,
        images: CheckedImages,
        classes: int,
        batch_size: int,
        files: CheckFiles | None = None,
        trained: Trained | None = None,
        below: Below | None = None,
    ) -> None:
        self._images, self._classes, self._batch_size, self._trained = images, classes, batch_size, trained
        self._files, self._below = files or CheckFiles(None), below
        self._opinions: dict[tuple[int, bool], SecondOpinion] = {}

    def ask(self, domain: Domain, *, learned: bool = False) -> SecondOpinion:
        """About the images that estimates for a domain are made on, row for row; or about those that were learned from."""
        key = (domain.id, learned)
        if key not in self._opinions:
            own = self._images.open_train(domain).unlabelled()
            images = choose_learned(own) if learned else self._images.open_unlabelled(domain)
            self._opinions[key] = self._ask(domain, own, images, learned=learned)
        return self._opinions[key]

    def _ask(self, domain: Domain, own: ImageSet, images: ImageSet, *, learned: bool) -> SecondOpinion:
        if self._heads is None:
            return self._networks.ask(str(domain.id), own, images)
        try:
            return self._heads.ask(f"{domain.id}-learned" if learned else str(domain.id), own, images)
        except AdaptdError as problem:
            log.warning("the check models are not heard about domain %s, they need the trained weights: %s", domain.name, problem)
            return replace(self._networks.ask(str(domain.id), own, images), heard=False, taught=None)

    @cached_property
    def _heads(self) -> HeadChecks | None:
        if self._trained is None:
            return None
        return HeadChecks(self._source, self._classes, self._batch_size, self._files, self._trained, self._below)

    @cached_property
    def _networks(self) -> NetChecks:
        return NetChecks(self._source, self._classes, self._batch_size, self._files)

    @cached_property
    def _source(self) -> ImageSet:
        return self._images.open_train(self._images.source)
