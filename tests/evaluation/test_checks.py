"""Check models on small pictures: what they learn from the source, and what they say of another domain."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import torch
from torch import nn

from adaptd.evaluation.checkfiles import CheckFiles
from adaptd.evaluation.checknet import RATE, OneCycle, ask_check, train_check
from adaptd.evaluation.checks import Checks
from adaptd.library.imageset import ImageSet
from adaptd.records import Domain, DomainState

MOMENT = datetime.now(UTC)
SOURCE, NIGHT = (Domain(i, name, i, DomainState.DONE, None, 0, 0, MOMENT, MOMENT) for i, name in enumerate(("source", "night")))


def bars(n: int, ink: int, paper: int, side: int = 32) -> ImageSet:
    """A bar that lies or stands, somewhere."""
    rng = np.random.default_rng(n)
    pixels = np.full((n, 3, side, side), paper, np.uint8)
    labels = np.arange(n, dtype=np.int64) % 2
    for image, label, place in zip(pixels, labels, rng.integers(2, side - 7, n), strict=True):
        image[(slice(None), slice(place, place + 5)) if label else (..., slice(place, place + 5))] = ink
    return ImageSet(np.arange(n, dtype=np.int64), pixels, labels)


@dataclass
class Images:
    """Two domains, the second without labels."""

    night: ImageSet
    source: Domain = SOURCE
    opened: int = 0
    labelled: ImageSet = field(default_factory=lambda: bars(64, 230, 20, side=16))

    def open_train(self, domain: Domain) -> ImageSet:
        """Counts how often the source is read."""
        self.opened += domain == SOURCE
        return self.labelled if domain == SOURCE else self.night.unlabelled()

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """The same images."""
        return self.open_train(domain)


def test_they_recognise_shapes_in_other_colours():
    """Without having seen a label of the other domain; and they are trained once for all questions."""
    images = Images(bars(60, 60, 130, side=16))
    checks = Checks(images, 2, 32)
    opinion = checks.ask(NIGHT)
    assert np.mean(opinion.together == images.night.labels) > 0.9
    assert opinion.is_reliable
    assert opinion.taught is not None
    assert np.mean(opinion.taught == images.night.labels) > 0.9
    assert checks.ask(NIGHT) is opinion
    assert images.opened == 1


def test_the_same_source_gives_the_same_answers():
    """Whatever has been drawn from torch's own generator meanwhile."""
    source, night = bars(12, 230, 20, side=16), bars(10, 60, 130, side=16)
    answers = []
    for _ in range(2):
        torch.rand(3)
        answers.append(ask_check(train_check(source, 2, 0), night, night, 4))
    assert np.array_equal(*answers)


def test_a_cycle_of_adamw_is_torchs():
    """Bit for bit the optimizer and the schedule it stands for."""
    steps, random = 20, torch.Generator().manual_seed(1)
    ours, theirs = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(3, 2))
    cycle = OneCycle([ours], RATE, steps)
    optimizer = torch.optim.AdamW([theirs], lr=RATE, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(steps):
        theirs.grad = torch.randn(3, 2, generator=random)
        cycle.step([theirs.grad.clone()])
        optimizer.step()
        schedule.step()
        assert torch.equal(ours, theirs)


def test_check_models_that_guess_teach_nobody():
    """Noise has no classes: they do not agree, and are asked no further."""
    noise = np.random.default_rng(0).integers(0, 256, (40, 3, 16, 16), dtype=np.uint8)
    source = ImageSet(np.arange(40), noise, np.arange(40, dtype=np.int64) % 10)
    opinion = Checks(Images(ImageSet(np.arange(40), noise[::-1].copy()), labelled=source), 10, 32).ask(NIGHT)
    assert opinion.taught is None


def test_trained_check_models_are_kept(tmp_path):
    """Asked again nothing is trained; what is damaged, or was made from another source, is made anew, and others go."""
    images = Images(bars(60, 60, 130, side=16))
    files = CheckFiles(tmp_path / "checks")
    first = Checks(images, 2, 32, files).ask(NIGHT)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "checks").iterdir()}
    assert {path.name.split("-")[0] for path in stamps} == {"source", "1"}
    again = Checks(images, 2, 32, files).ask(NIGHT)
    assert np.array_equal(first.taught, again.taught)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "checks").iterdir()} == stamps
    damaged = next((tmp_path / "checks").glob("source-*"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    Checks(images, 2, 32, files).ask(NIGHT)
    assert damaged.read_bytes() == whole
    assert len(list((tmp_path / "checks").iterdir())) == 2
    Checks(Images(images.night, labelled=bars(70, 230, 20, side=16)), 2, 32, files).ask(NIGHT)
    assert not damaged.exists()
    assert len(list((tmp_path / "checks").iterdir())) == 2
