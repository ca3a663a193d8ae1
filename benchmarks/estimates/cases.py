"""What the product's own estimators say of every stored version on every target, beside the truth that it cannot see."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from adaptd.evaluation.checkfiles import CheckFiles
from adaptd.evaluation.checks import Checks
from adaptd.evaluation.evaluator import measure, predict
from adaptd.evaluation.predictions import choose_learned, predict_domains
from adaptd.evaluation.rows import RowMaker
from adaptd.files import replace_file
from adaptd.learning.backbones import Classifier
from adaptd.learning.weights import find_trained, load_classifier
from adaptd.library.imageset import ImageSet
from adaptd.project.settings import Settings
from adaptd.records import AccuracyKind, Domain, DomainState
from benchmarks.estimates.versions import Ground


@dataclass(frozen=True, slots=True)
class Case:
    """One version on one target. `before`: it had not learned from it yet; `fresh`: it has just done so.

    `true` is measured on the domain's test images, `here` on the held-out ones that the estimate is made on.
    `flips`, of a fresh one: how many answers went wrong and came right since the version before, as check models see it.
    """

    method: str
    seed: int
    episode: int
    domain: str
    before: bool
    fresh: bool
    n: int
    true: float
    values: dict[str, float]
    low: float
    high: float
    flips: tuple[int, int] | None = None
    here: float | None = None


class GroundImages:
    """A ground as the product sees images: the targets have no test set."""

    def __init__(self, ground: Ground) -> None:
        now = datetime.now(UTC)
        names = [domain.name for domain in ground.recipe.domains]
        self.domains = tuple(Domain(i, name, i, DomainState.DONE, None, 0, 0, now, now) for i, name in enumerate(names))
        self._ground = ground

    @property
    def source(self) -> Domain:
        """Domain 0."""
        return self.domains[0]

    def open_train(self, domain: Domain) -> ImageSet:
        """What is learned from; only the source's has labels."""
        images = self._ground.recipe.domains[domain.id].train
        return images.unlabelled() if domain.id else images

    def has_test(self, domain: Domain) -> bool:
        """Only the source has one that models may see."""
        return not domain.id

    def open_test(self, domain: Domain) -> ImageSet | None:
        """The source's."""
        return None if domain.id else self._ground.recipe.domains[0].test

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """The held-out images."""
        return self._ground.held_out[domain.name].unlabelled()

    def open_memory(self, _: Domain) -> ImageSet | None:
        """None is needed here."""
        return None

    def has_held_out(self, domain: Domain) -> bool:
        """Every target has."""
        return domain.id > 0


class Estimation:
    """Estimates every version of a sequence; check models are trained once for all of them, and kept in a folder."""

    def __init__(self, ground: Ground, settings: Settings, kept: Path) -> None:
        self._ground, self._batch_size, classes = ground, settings.evaluation.batch_size, ground.recipe.classes
        self._images = GroundImages(ground)
        trained = find_trained(settings.model.model_copy(update={"classes": classes}), Path())
        self._checks = Checks(self._images, len(classes), self._batch_size, CheckFiles(kept), trained)
        self._rows = RowMaker(self._images, self._checks, settings.evaluation)

    def run(self, method: str, seed: int, files: Sequence[Path]) -> list[Case]:
        """The cases of one sequence."""
        found: list[Case] = []
        model = before = load_classifier(files[0])
        for episode, file in enumerate(files):
            before, model = model, load_classifier(file)
            row = self._rows.make(predict_domains(model, self._images, self._batch_size), self._images.domains, episode)
            for domain in self._images.domains[1:]:
                mine = {e.estimator: e for e in row if e.domain_id == domain.id and e.kind is AccuracyKind.ESTIMATED}
                test, held_out = self._ground.recipe.domains[domain.id].test, self._ground.held_out[domain.name]
                true, here = (measure(model, images, self._batch_size).accuracy for images in (test, held_out))
                shown = mine["range"]
                assert shown.low is not None
                assert shown.high is not None
                values = {name: entry.value for name, entry in mine.items()}
                when = (episode < domain.id, episode == domain.id)
                flips = self._count_flips(before, model, domain) if episode == domain.id else None
                found.append(
                    Case(method, seed, episode, domain.name, *when, shown.n, true, values, shown.low, shown.high, flips, here)
                )
        return found

    def _count_flips(self, before: Classifier, after: Classifier, domain: Domain) -> tuple[int, int] | None:
        """On all images, as the gate compares two versions on the domain just learnt."""
        counts = np.zeros(2, dtype=np.int64)
        for learned in (False, True):
            images = choose_learned(self._images.open_train(domain)) if learned else self._images.open_unlabelled(domain)
            taught = self._checks.ask(domain, learned=learned).taught
            if taught is None:
                return None
            was, is_now = (predict(model, images, self._batch_size).argmax(axis=1) == taught for model in (before, after))
            counts += ((was & ~is_now).sum(), (is_now & ~was).sum())
        return int(counts[0]), int(counts[1])


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """As JSON."""
    replace_file(path, json.dumps([asdict(case) for case in cases], indent=1).encode())


def read_cases(path: Path) -> list[Case]:
    """The reverse."""
    return [Case(**values) for values in json.loads(path.read_text(encoding="utf-8"))]
