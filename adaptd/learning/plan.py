"""How an episode is trained: the common shape of [source] and [training]. What is learned is the method's business."""

from dataclasses import dataclass
from math import cos, pi
from typing import Literal

from adaptd.learning.backbones import LENETS
from adaptd.machine import cpu_count
from adaptd.project.settings import AugmentationSettings, MemorySettings, MethodSettings, Settings

SOURCE_WARM_UP = 0.05
"""Share of the steps over which a source model's rate rises; an adapted model starts from trained weights instead."""


Rule = Literal["sgd", "adamw", "rmsprop"]

RATES: dict[Rule, float] = {"sgd": 0.001, "adamw": 0.0001, "rmsprop": 0.0001}
"""What a pretrained network bears; a LeNet bears ten times as much."""


def _find_rule(settings: Settings) -> Rule:
    """Guarded self-training projects in RMSprop's metric; the paper's methods are what they are with plain SGD."""
    return "rmsprop" if settings.method.name in {"guarded", "self-training"} else "sgd"


def _find_rate(settings: Settings, rule: Rule) -> float:
    return RATES[rule] * (10 if settings.model.backbone in LENETS else 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about an episode that is neither model nor data. Names are those of the settings."""

    epochs: int
    batch_size: int
    source_share: float
    memory_share: float
    optimizer: Rule
    learning_rate: float
    momentum: float
    weight_decay: float
    warm_up: float
    seed: int
    max_nonfinite_steps: int
    threads: int
    augmentation: AugmentationSettings | None
    memory: MemorySettings
    method: MethodSettings

    @classmethod
    def for_adaptation(cls, settings: Settings) -> "Plan":
        """An episode on a target domain."""
        t = settings.training
        rule = _find_rule(settings) if t.optimizer == "auto" else t.optimizer
        return cls(
            epochs=t.epochs,
            batch_size=t.batch_size,
            source_share=t.source_share,
            memory_share=t.memory_share,
            optimizer=rule,
            learning_rate=t.learning_rate or _find_rate(settings, rule),
            momentum=t.momentum,
            weight_decay=t.weight_decay,
            warm_up=0.0,
            seed=t.seed,
            max_nonfinite_steps=t.max_nonfinite_steps,
            threads=t.threads or cpu_count(),
            augmentation=settings.augmentation,
            memory=settings.memory,
            method=settings.method,
        )

    @classmethod
    def for_source(cls, settings: Settings) -> "Plan":
        """Episode 0: the whole batch is source."""
        s, t = settings.source, settings.training
        return cls(
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
            threads=t.threads or cpu_count(),
            augmentation=settings.augmentation if s.augment else None,
            memory=settings.memory,
            method=settings.method,
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
