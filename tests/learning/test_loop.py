"""Episodes: what they change, what they leave alone, and that they go on where they stopped."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from adaptd.errors import CheckpointError, NonFiniteSteps, NothingToLearn
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.checkpoint import read_checkpoint, write_checkpoint
from adaptd.learning.loop import Training
from adaptd.learning.methods.registry import METHODS
from adaptd.learning.plan import Plan
from adaptd.library.imageset import ImageSet


@pytest.fixture
def data(squares):
    """A source, the memories of two past domains, and a tinted target."""
    memories = (squares(9, 1000, tint=20), squares(7, 2000, tint=40))
    return EpisodeData(squares(36, 0), memories, squares(40, 3000, tint=60, labelled=False))


def start(settings, data, method="grcl", model=None) -> Training:
    """An episode on a fresh model, or on this one."""
    plan = Plan.for_source(settings) if method == "supervised" else Plan.for_adaptation(settings, method)
    return Training(model or build_classifier(settings.model, seed=1), data, plan)


def weights(episode: Training) -> dict[str, torch.Tensor]:
    """A copy of everything in the model that can change."""
    return {name: value.clone() for name, value in episode.model.state_dict().items()}


def same(one: dict, two: dict) -> bool:
    """Equal, bit for bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


RESUMED = [
    ("grcl", {}),
    ("grcl", {"momentum": 0.9, "weight_decay": 0.01}),
    ("grcl", {"optimizer": "adamw", "learning_rate": 0.001}),
    ("contrastive+source+memory", {"momentum": 0.9}),
    ("contrastive+sdc", {"threads": 2, "epochs": 1}),
    ("guarded", {}),
    ("guarded", {"optimizer": "sgd"}),
    ("self-training", {"optimizer": "adamw"}),
    ("dann", {}),
    ("cua", {}),
    ("gra", {}),
    ("mcd", {}),
    ("dada", {}),
    ("supervised", {}),
]


@pytest.mark.parametrize(("method", "training"), RESUMED)
@pytest.mark.parametrize("seed", range(3))
def test_a_resumed_episode_ends_bit_identical(settings, data, tmp_path, method, training, seed):
    """Stopped after any step, written, read and resumed by a fresh episode: weights, bank, memory and report are the same."""
    chosen = settings(seed=seed, **training)
    whole = start(chosen, data, method)
    list(whole)
    stopped, stop = start(chosen, data, method), int(np.random.default_rng(seed).integers(0, whole.steps))
    for _ in zip(range(stop), stopped, strict=False):
        pass
    digest = write_checkpoint(tmp_path / "checkpoint", stopped.state())
    list(stopped)  # the state is a copy: that the episode went on changes nothing
    torch.manual_seed(seed + 99)
    torch.rand(7)
    torch.set_num_threads(3 - chosen.training.threads)
    resumed = start(chosen, data, method, build_classifier(chosen.model, seed=77))
    resumed.restore(read_checkpoint(tmp_path / "checkpoint", digest))
    assert torch.get_num_threads() == chosen.training.threads
    reports = list(resumed)
    assert [report.step for report in reports] == list(range(stop + 1, whole.steps + 1))
    assert same(weights(resumed), weights(whole))
    assert same(resumed.method.tensors(), whole.method.tensors())
    one, two = resumed.finish(), whole.finish()
    assert {**one.report, "seconds": 0} == {**two.report, "seconds": 0}
    if one.memory is not None:
        assert torch.equal(one.memory.ids, two.memory.ids)
        assert torch.equal(one.memory.confidence, two.memory.confidence)


def test_batchnorm_and_dropout_resume_too(settings, data):
    """A source episode with BatchNorm and dropout resumes bit for bit: statistics are kept, dropout follows the step number."""
    chosen = settings("mobilenet_v2")
    whole, half = start(chosen, data, "supervised"), start(chosen, data, "supervised")
    for _ in zip(range(4), whole, strict=False):
        pass
    for _ in zip(range(2), half, strict=False):
        pass
    resumed = start(chosen, data, "supervised", build_classifier(chosen.model, seed=77))
    resumed.restore(half.state())
    for _ in zip(range(2), resumed, strict=False):
        pass
    assert same(weights(resumed), weights(whole))


def test_a_state_fits_only_its_own_episode(settings, data, squares):
    """Another plan, method or set of images refuses the state."""
    state = start(settings(), data).state()
    others = [
        start(settings(learning_rate=0.5), data),
        start(settings(), data, "contrastive+sdc"),
        start(settings(), EpisodeData(data.source, data.memories, squares(40, 4000))),
    ]
    for other in others:
        with pytest.raises(CheckpointError, match="belongs to another"):
            other.restore(state)
    start(settings(threads=1), data).restore(state)


WITHOUT_PROJECTOR = {"guarded", "dann", "cua", "gra", "mcd", "dada"}


@pytest.mark.parametrize(
    "method",
    ["grcl", "contrastive+sdc", "contrastive+source", "contrastive+source+memory", *sorted(WITHOUT_PROJECTOR), "supervised"],
)
def test_every_part_of_the_model_is_trained(settings, data, method):
    """Encoder and classifier move, and the projector wherever there is a contrastive loss or, in episode 0, weight decay."""
    episode = start(settings(learning_rate=0.1), data, method)
    before = weights(episode)
    reports = list(episode)
    assert not any(report.skipped for report in reports)
    moved = {name.split(".")[0] for name, value in episode.model.state_dict().items() if not torch.equal(before[name], value)}
    assert moved == {"encoder", "classifier"} | (set() if method in WITHOUT_PROJECTOR else {"projector"})


def test_source_only_leaves_the_model_alone(settings, data):
    """No steps, no change; the domain is remembered all the same."""
    episode = start(settings(), data, "source-only")
    before = weights(episode)
    assert list(episode) == []
    outcome = episode.finish()
    assert same(before, weights(episode))
    assert outcome.report["steps"] == 0
    assert len(outcome.memory) == 10


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("method", ["grcl", "supervised"])
def test_modes_are_restored(settings, data, method, mode):
    """Training or evaluation mode of each module is as before after every step and at the end."""
    episode = start(settings(), data, method)
    episode.model.train(mode)
    episode.model.projector.train(not mode)
    expected = [module.training for module in episode.model.modules()]
    for _ in episode:
        assert [module.training for module in episode.model.modules()] == expected
    episode.finish()
    assert [module.training for module in episode.model.modules()] == expected


def test_adaptation_leaves_batchnorm_statistics_alone(settings, data):
    """GRCL's three passes a step change BatchNorm's scale and shift, never its statistics."""
    episode = start(settings("resnet18", epochs=1), data)
    before = weights(episode)
    assert len(list(itertools.islice(episode, 2))) == 2
    after = episode.model.state_dict()
    statistics = [name for name in before if "running" in name or "num_batches" in name]
    assert len(statistics) == 60
    assert all(torch.equal(before[name], after[name]) for name in statistics)
    assert not torch.equal(before["encoder.bn1.weight"], after["encoder.bn1.weight"])


def test_the_source_episode_learns_batchnorm_statistics(settings, data):
    """In episode 0 BatchNorm trains as usual."""
    episode = start(settings("resnet18"), data, "supervised")
    before = weights(episode)
    next(iter(episode))
    assert not torch.equal(before["encoder.bn1.running_mean"], episode.model.state_dict()["encoder.bn1.running_mean"])


@pytest.mark.parametrize(
    ("method", "backbone"), [*((name, "lenet5") for name in METHODS if name != "source-only"), ("supervised", "resnet18")]
)
def test_a_non_finite_step_changes_nothing_and_is_counted(settings, data, method, backbone):
    """One poisoned step of any method is skipped: weights, statistics, update rules and what the method owns stay as they are."""
    episode = start(settings(backbone, epochs=1), data, method)
    steps = iter(episode)
    next(steps)
    before = episode.state().tensors
    std = episode.model.std.clone()
    episode.model.std.zero_()
    assert next(steps).skipped
    episode.model.std.copy_(std)
    assert same(before, episode.state().tensors)
    assert not next(steps).skipped
    assert not same(before, episode.state().tensors)
    assert not any(report.skipped for report in steps)
    assert episode.finish().report["skipped_steps"] == 1


def test_too_many_non_finite_steps_fail_the_episode(settings, data):
    """After the configured number in a row the episode ends with the fact and the remedy."""
    episode = start(settings(max_nonfinite_steps=3), data)
    with torch.no_grad():
        episode.model.classifier.bias.fill_(torch.nan)
    with pytest.raises(NonFiniteSteps, match=r"3 steps in a row .* lower the learning_rate"):
        list(episode)


def test_the_report_measures_whole_sets_before_and_after(settings, data):
    """Cross-entropy of the full source and of all memories together, in evaluation mode, before and after."""
    episode = start(settings(), data)

    def entropy(*sets: ImageSet) -> float:
        images = torch.cat([torch.from_numpy(s.pixels) for s in sets]).float() / 255
        labels = torch.cat([torch.from_numpy(s.labels) for s in sets])
        with torch.no_grad():
            return functional.cross_entropy(episode.model(images), labels).item()

    before = entropy(data.source), entropy(*data.memories)
    reports = list(episode)
    report = episode.finish().report
    assert report["cross_entropy"]["source"]["before"] == pytest.approx(before[0], rel=1e-5)
    assert report["cross_entropy"]["memory"]["before"] == pytest.approx(before[1], rel=1e-5)
    assert report["cross_entropy"]["source"]["after"] == pytest.approx(entropy(data.source), rel=1e-5)
    assert report["cross_entropy"]["memory"]["after"] == pytest.approx(entropy(*data.memories), rel=1e-5)
    ratios = {name: np.mean([r.active[name] for r in reports]) for name in ("source", "memory")}
    assert report["constraint_active_ratio"] == pytest.approx(ratios)
    assert report["images"] == sum(r.images for r in reports)
    assert report["steps"] == len(reports) == reports[-1].steps


def test_memory_is_keyed_by_image_id(settings, data, squares):
    """A trained model's memory of shuffled target images names the right class for each id."""
    chosen = settings()
    target = squares(40, 3000, tint=10)
    model = build_classifier(chosen.model, seed=1)
    list(start(chosen, EpisodeData(squares(90, 0)), "supervised", model))
    memory = start(chosen, EpisodeData(data.source, (), target), "source-only", model).finish().memory
    truth = dict(zip(target.ids.tolist(), target.labels.tolist(), strict=True))
    assert [truth[i] for i in memory.ids.tolist()] == memory.labels.tolist()
    assert ((memory.confidence > 0) & (memory.confidence < 1)).all()


def test_small_domains_work(settings, squares):
    """A domain smaller than a batch and than its memory's quota, with a class missing everywhere, adapts and is remembered."""
    tiny = EpisodeData(squares(5, 0, classes=2), (squares(1, 100),), squares(3, 200, classes=2))
    episode = start(settings(batch_size=64), tiny)
    reports = list(episode)
    assert len(reports) == episode.plan.epochs
    assert reports[0].images == 5 + 1 + 3
    memory = episode.finish().memory
    assert sorted(memory.ids.tolist()) == [200, 201, 202]


def test_the_first_episode_has_no_memory_constraint(settings, data):
    """Without memories only the source constrains, and no memory loss is reported."""
    episode = start(settings(), EpisodeData(data.source, (), data.target))
    report = next(iter(episode))
    assert report.multipliers.keys() == {"source"}
    assert episode.finish().report["cross_entropy"]["memory"] == {"before": None, "after": None}


def test_steps_report_what_people_watch(settings, data):
    """Losses, norms, multipliers, rate and speed are there; progress runs to the end."""
    reports = list(start(settings(), data))
    for number, report in enumerate(reports, 1):
        assert (report.step, report.steps) == (number, len(reports))
        assert report.losses.keys() == report.norms.keys() == {"contrastive", "source", "memory"}
        assert report.active == {name: u > 0 for name, u in report.multipliers.items()}
        assert report.images_per_second > 0
    assert reports[0].learning_rate > reports[-1].learning_rate > 0


def test_supervised_training_learns(settings, data):
    """Episode 0 learns coloured squares."""
    report = start(settings(), data, "supervised")
    list(report)
    entropy = report.finish().report["cross_entropy"]["source"]
    assert entropy["after"] < 0.5 * entropy["before"]


def test_one_image_is_nothing_to_learn_from(settings, squares):
    """A source of a single image is refused before anything starts."""
    with pytest.raises(NothingToLearn, match="too few"):
        start(settings(), EpisodeData(squares(1, 0)), "supervised")


def test_after_the_end_gradients_are_let_go(settings, data):
    """A finished model holds no gradient rows."""
    episode = start(settings(epochs=1), data)
    list(episode)
    episode.finish()
    assert all(isinstance(p, nn.Parameter) and p.grad is None for p in episode.model.parameters())
