"""One cell of a comparison: a method, a seed, the whole sequence of domains, and R."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from adaptd.bench.recipes import BenchDomain, Recipe
from adaptd.bench.unfinished import Episode, Unfinished, claiming
from adaptd.errors import DomainNotRecognised
from adaptd.evaluation.evaluator import measure
from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.metrics import summarize
from adaptd.files import replace_file
from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.depth import make_ready
from adaptd.learning.grcl import MemorySelection
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.learning.reports import Outcome
from adaptd.learning.weights import load_classifier, load_weights, save_classifier
from adaptd.library.cache import take
from adaptd.library.imageset import ImageSet
from adaptd.pace import Seen, ignore
from adaptd.project.settings import Settings
from adaptd.records import AccuracyKind

ORACLE = "oracle"
"""One model trained with every domain's labels: the ceiling. It exists in this harness alone."""

_UNKNOWN = {"before": None, "after": None}
NOTHING_DONE = {
    "steps": 0,
    "seconds": 0.0,
    "constraint_active_ratio": {},
    "cross_entropy": {"source": _UNKNOWN, "memory": _UNKNOWN},
}
"""The report of an episode on a domain that the method refused."""

ShowStep = Callable[[str, int, int], None]
"""Told what is trained, the step, and of how many; or, after a comma, what else is done, how many images, and of how many."""

Teach = Callable[[BenchDomain, Classifier], ImageSet]
"""Labelled images of a domain that join its episode, chosen by means of the model that it begins with."""


def train_source(recipe: Recipe, settings: Settings, path: Path, show: ShowStep) -> None:
    """Train the source model of a seed, unless it is there: every method starts from the same. Other processes wait for it."""
    with claiming(path.with_suffix(".lock"), wait=True):
        if path.exists():
            return
        model = _fresh(recipe, settings)
        _train(model, EpisodeData(recipe.domains[0].train), Plan.for_source(settings), "source", show)
        replace_file(path, save_classifier(model))


def run_cell(
    recipe: Recipe,
    settings: Settings,
    method: str,
    source: Path,
    show: ShowStep,
    work: Path | None = None,
    teach: Teach | None = None,
) -> dict[str, Any]:
    """Adapt to one domain after another, and measure every domain after each episode.

    Args:
        recipe: the domains.
        settings: with the seed.
        method: its name, or the oracle.
        source: weights of the source model.
        show: told how far it is.
        work: a folder for the weights after each episode, `0.safetensors` and so on, and for checkpoints: called again with the
            same one it goes on where it stopped.
        teach: labelled images that join each episode.
    """
    if method == ORACLE:
        return _run_oracle(recipe, settings, show)
    with TemporaryDirectory(prefix="adaptd-") as passing:
        episodes = _adapt(recipe, settings, method, source, show, Unfinished(work or Path(passing)), teach)
    reports = [episode.report for episode in episodes if episode.report is not None]
    return _summary(recipe, method, settings, [episode.row for episode in episodes], reports)


def _adapt(
    recipe: Recipe, settings: Settings, method: str, source: Path, show: ShowStep, unfinished: Unfinished, teach: Teach | None
) -> list[Episode]:
    """The source model and every episode; those that are over already are read."""
    plan, (home, *targets) = Plan.for_adaptation(settings, method), recipe.domains
    episodes = unfinished.read()
    model = unfinished.load(len(episodes) - 1) if episodes else load_classifier(source)
    if not episodes:
        episodes.append(Episode(_measure(model, recipe, settings, show)))
        unfinished.add(0, model, episodes[0])
    for number, domain in enumerate(targets[len(episodes) - 1 :], len(episodes)):
        past = zip(targets, episodes[1:], strict=False)
        memories = [_remember(old, episode.memory) for old, episode in past if episode.memory is not None]
        taught = () if teach is None else (teach(domain, model),)
        data = EpisodeData(home.train, (*memories, *taught), domain.train.unlabelled(), home.test)
        try:
            outcome = _train(model, data, plan, domain.name, show, unfinished)
        except DomainNotRecognised as refusal:
            outcome = Outcome(None, NOTHING_DONE | {"refused": str(refusal)})
        report = {"domain": domain.name, "memory_purity": _purity(domain, outcome.memory), **outcome.report}
        episodes.append(Episode(_measure(model, recipe, settings, show), report, outcome.memory))
        unfinished.add(number, model, episodes[number])
    return episodes


def _run_oracle(recipe: Recipe, settings: Settings, show: ShowStep) -> dict[str, Any]:
    parts = [domain.train for domain in recipe.domains if domain.train.labels is not None]
    model = _fresh(recipe, settings)
    everything = ImageSet(
        np.arange(sum(map(len, parts)), dtype=np.int64),
        np.concatenate([part.pixels for part in parts]),
        np.concatenate([part.labels for part in parts if part.labels is not None]),
    )
    plan = Plan.for_source(settings)
    # Twice the source model's steps, spread over all domains: enough to converge, and not five times as long.
    plan = replace(plan, epochs=max(1, round(2 * plan.epochs / len(parts))))
    outcome = _train(model, EpisodeData(everything), plan, ORACLE, show)
    unknown: tuple[Entry | None, ...] = (None,) * len(recipe.domains)
    rows = [*[unknown] * (len(recipe.domains) - 1), _measure(model, recipe, settings, show)]
    return _summary(recipe, ORACLE, settings, rows, [{"domain": "all", **outcome.report}])


def _fresh(recipe: Recipe, settings: Settings) -> Classifier:
    chosen = settings.model.model_copy(update={"classes": recipe.classes})
    model = build_classifier(chosen, settings.training.seed)
    if settings.model.weights:
        load_weights(model, settings.model.weights)
    return model


def _train(
    model: Classifier, data: EpisodeData, plan: Plan, title: str, show: ShowStep, unfinished: Unfinished | None = None
) -> Outcome:
    """Train a model in place, from its checkpoint where there is one; the time of making activations counts."""
    start = time.perf_counter()
    with TemporaryDirectory(prefix="adaptd-") as work:
        ready = make_ready(model, data, plan, Path(work), lambda done, total: show(title, done, total))
        made = time.perf_counter() - start
        training = Training(ready.model, ready.data, ready.plan)
        if unfinished is not None:
            unfinished.resume(training)
        outcome = _follow(training, title, show, unfinished)
    seconds = outcome.report["seconds"] + made
    return Outcome(outcome.memory, outcome.report | ready.report | {"seconds": seconds})


def _follow(training: Training, title: str, show: ShowStep, unfinished: Unfinished | None) -> Outcome:
    """All steps of a training, and how far it is, also while it looks at images between them."""
    model, every, look = training.model, training.survey_images, training.method.look_images
    model.seen = _count(f"{title}, looking", every + look, show)
    for report in training:
        show(title, report.step, report.steps)
        if unfinished is not None:
            unfinished.save(training)
        model.seen = _count(f"{title}, looking", every + look if report.step == report.steps else look, show)
    outcome = training.finish()
    model.seen = ignore
    return outcome


def _count(title: str, total: int, show: ShowStep) -> Seen:
    """Counts images that are looked at, for whoever watches."""
    done = 0

    def seen(count: int) -> None:
        nonlocal done
        done += count
        show(title, done, max(done, total))

    return seen


def _measure(model: Classifier, recipe: Recipe, settings: Settings, show: ShowStep) -> tuple[Entry | None, ...]:
    seen = _count("all domains, measuring", sum(len(domain.test) for domain in recipe.domains), show)
    found = [measure(model, domain.test, settings.evaluation.batch_size, seen) for domain in recipe.domains]
    return tuple(Entry(one.accuracy, AccuracyKind.MEASURED, one.n) for one in found)


def _remember(domain: BenchDomain, memory: MemorySelection) -> ImageSet:
    kept = take(domain.train, memory.ids.tolist())
    return ImageSet(kept.ids, kept.pixels, memory.labels.numpy().astype(np.int64))


def _purity(domain: BenchDomain, memory: MemorySelection | None) -> float | None:
    """How many pseudo-labels in a memory are right: a diagnosis, seen by no method."""
    if memory is None or domain.train.labels is None:
        return None
    truth = take(domain.train, memory.ids.tolist()).labels
    return float(np.mean(truth == memory.labels.numpy()))


def _summary(
    recipe: Recipe, method: str, settings: Settings, rows: list[tuple[Entry | None, ...]], episodes: list[dict[str, Any]]
) -> dict[str, Any]:
    names = tuple(domain.name for domain in recipe.domains)
    matrix = Matrix(names, tuple(range(len(rows))), tuple(rows))
    metrics = summarize(matrix)
    return {
        "method": method,
        "seed": settings.training.seed,
        "harness_only": method == ORACLE,
        "domains": list(names),
        "R": matrix.to_json()["R"],
        "acc": metrics.acc,
        "acc_targets": metrics.acc_targets,
        "bwt": metrics.bwt,
        "fwt": metrics.fwt,
        "seconds": sum(episode["seconds"] for episode in episodes),
        "steps": sum(episode["steps"] for episode in episodes),
        "episodes": episodes,
    }
