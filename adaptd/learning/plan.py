"""How an episode is trained: the common shape of [source] and [training]. What is learned is the method's business."""

from dataclasses import dataclass
from math import cos, pi
from typing import Protocol

from adaptd.errors import ConfigError
from adaptd.learning.devices import resolve_device
from adaptd.learning.methods.options import GuardedOptions
from adaptd.learning.methods.registry import RuleName, get_entry
from adaptd.learning.methods.settings import MethodSettings, choose_rule, find_ignored
from adaptd.learning.origins import LENETS
from adaptd.learning.settings import (
    AugmentationSettings,
    DepthChoice,
    MemorySettings,
    ModelSettings,
    SourceSettings,
    TrainingSettings,
)
from adaptd.machine import cpu_count
from adaptd.records import SUPERVISED
from adaptd.sections import Section

SOURCE_WARM_UP = 0.05
"""Share of the steps over which a source model's rate rises; an adapted model starts from trained weights instead."""


class LearningSettings(Protocol):
    """The sections that a plan is made from."""

    @property
    def model(self) -> ModelSettings:
        """[model]."""

    @property
    def augmentation(self) -> AugmentationSettings:
        """[augmentation]."""

    @property
    def source(self) -> SourceSettings:
        """[source]."""

    @property
    def training(self) -> TrainingSettings:
        """[training]."""

    @property
    def memory(self) -> MemorySettings:
        """[memory]."""

    @property
    def method(self) -> MethodSettings:
        """[method]."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about an episode that is neither model nor data. Names are those of the settings."""

    method: str
    options: Section
    epochs: int
    batch_size: int
    source_share: float
    memory_share: float
    optimizer: RuleName
    learning_rate: float
    momentum: float
    weight_decay: float
    warm_up: float
    seed: int
    max_nonfinite_steps: int
    max_lost_classes: float
    threads: int
    augmentation: AugmentationSettings | None
    memory: MemorySettings
    depth: DepthChoice
    views: int
    device: str = "cpu"

    @property
    def warp(self) -> float:
        """How far images are turned, zoomed and slanted before they are learned from."""
        return self.options.warp if isinstance(self.options, GuardedOptions) else 0.0

    @classmethod
    def for_adaptation(cls, settings: LearningSettings, method: str) -> "Plan":
        """An episode on a target domain with the method that really runs, whatever [method] name says.

        Raises:
            ConfigError: there is no such method, or something is set that it would ignore.
        """
        t, entry = settings.training, get_entry(method)
        if ignored := find_ignored(t, method):
            raise ConfigError("\n".join(f"[training] {key} {reason}" for key, reason in ignored.items()))
        rule = choose_rule(t, method)
        return cls(
            method=method,
            options=settings.method.options_of(method),
            epochs=t.epochs,
            batch_size=t.batch_size,
            source_share=t.source_share,
            memory_share=t.memory_share,
            optimizer=rule,
            learning_rate=t.learning_rate or entry.rates[rule] * (10 if settings.model.backbone in LENETS else 1),
            momentum=t.momentum,
            weight_decay=t.weight_decay,
            warm_up=0.0,
            seed=t.seed,
            max_nonfinite_steps=t.max_nonfinite_steps,
            max_lost_classes=t.max_lost_classes,
            threads=t.threads or cpu_count(),
            augmentation=settings.augmentation,
            memory=settings.memory,
            device=resolve_device(t.device),
            depth=t.depth if entry.trains else "all",
            views=t.views,
        )

    @classmethod
    def for_source(cls, settings: LearningSettings) -> "Plan":
        """Episode 0: the whole batch is source."""
        s, t = settings.source, settings.training
        return cls(
            method=SUPERVISED,
            options=settings.method.options_of(SUPERVISED),
            epochs=s.epochs,
            batch_size=s.batch_size,
            source_share=1.0,
            memory_share=0.0,
            optimizer=s.optimizer,
            learning_rate=s.learning_rate,
            momentum=s.momentum,
            weight_decay=s.weight_decay,
            warm_up=SOURCE_WARM_UP,
            seed=t.seed,
            max_nonfinite_steps=t.max_nonfinite_steps,
            max_lost_classes=t.max_lost_classes,
            threads=t.threads or cpu_count(),
            augmentation=settings.augmentation if s.augment else None,
            memory=settings.memory,
            device=resolve_device(t.device),
            depth=s.depth if s.epochs else "all",
            views=t.views,
        )

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step: rises over the warm-up, then decays as a cosine."""
        warm = int(self.warm_up * steps)
        if step < warm:
            return self.learning_rate * (step + 1) / (warm + 1)
        return self.learning_rate * falling((step - warm) / max(1, steps - warm))


def falling(progress: float) -> float:
    """From 1 to 0 as a cosine."""
    return 0.5 * (1 + cos(pi * progress))
