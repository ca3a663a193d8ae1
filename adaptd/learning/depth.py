"""What of a model an episode trains: chosen here, and got ready. Nothing else has to know: methods see a smaller model."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from adaptd.learning.activations import Show, Store, count_changed
from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.below import Below
from adaptd.learning.cut import cut, find_last_stage
from adaptd.learning.origins import LENETS
from adaptd.learning.plan import Plan
from adaptd.learning.settings import Depth
from adaptd.records import SUPERVISED

DEPTH = "depth"
"""Under this name an episode's report tells what was trained, and why."""

SMALL = 64
"""Images of fewer pixels are so fast that all of a network is trained."""

LARGEST = 16_000_000_000
"""Bytes of activations; where the last stage's would be more, the classifier alone is trained."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """What a training is made of, once it is decided what is trained; and what the report tells of that.

    `below` has the activations, where there are any.
    """

    model: Classifier
    data: EpisodeData
    plan: Plan
    report: dict[str, Any]
    below: Below | None = None


def make_ready(model: Classifier, data: EpisodeData, plan: Plan, folder: Path, show: Show = lambda _done, _total: None) -> Ready:
    """Decide what is trained and, where that is not all, make the activations below it.

    Args:
        model: the whole model; training what is given back changes it.
        data: what is learned from.
        plan: with the depth that was asked for.
        folder: for the activations; to be deleted when the episode is over.
        show: told how far it is.

    Raises:
        ConfigError: the backbone has no last stage.
        OSError: the activations do not fit on the disk.
    """
    depth, why = choose_depth(model, data, plan)
    plan = replace(plan, depth=depth)
    told: dict[str, Any] = {"trained": depth, "why": why}
    if depth == "all":
        return Ready(model, data, plan, {DEPTH: told})
    limit_threads(plan)
    parts = cut(model.to(plan.device), depth)
    store = Store(folder, parts, plan)
    views = 1 + count_changed(plan)
    told |= {"views": views, "bytes": views * store.count_bytes(count_images(data))}
    log.info("trained: %s (%s); %s views of each image are run through the rest once", depth, why, views)
    opened = store.open(data, show)
    return Ready(parts.upper, opened, plan, {DEPTH: told}, Below(depth, parts, opened))


def find_below(
    model: Classifier, data: EpisodeData, plan: Plan, folder: Path, show: Show = lambda _done, _total: None
) -> Below | None:
    """The first of these activations, those of images as they are; None where everything is trained.

    Arguments as of `make_ready`, which then makes the others.
    """
    depth, _ = choose_depth(model, data, plan)
    if depth == "all":
        return None
    limit_threads(plan)
    parts = cut(model.to(plan.device), depth)
    return Below(depth, parts, Store(folder, parts, replace(plan, depth=depth)).open(data, show, changed=False))


def limit_threads(plan: Plan) -> None:
    """Let torch work with the plan's threads, also before anything is trained."""
    torch.set_num_threads(plan.threads)


def choose_depth(model: Classifier, data: EpisodeData, plan: Plan) -> tuple[Depth, str]:
    """What is trained, and why."""
    if plan.depth != "auto":
        return plan.depth, "as the settings say"
    if reason := _why_all(model, plan):
        return "all", reason
    found = find_last_stage(model)
    if found is None:
        return "all", f"no stages are found in {model.settings.backbone}"
    needed = (1 + count_changed(plan)) * 2 * count_images(data) * found[2].numel()
    if needed > LARGEST:
        return (
            "classifier",
            f"{count_images(data):,} images on a CPU, whose activations below the last stage take {needed / 1e9:.0f} GB",
        )
    return "last-stage", f"{model.settings.backbone} at {model.settings.image_size} pixels on a CPU"


def _why_all(model: Classifier, plan: Plan) -> str:
    """Why auto trains everything; empty where it does not."""
    settings = model.settings
    if plan.device != "cpu":
        return f"{plan.device} is fast"
    if settings.backbone in LENETS or settings.image_size < SMALL:
        return "the network or its images are small"
    if plan.method == SUPERVISED and not settings.weights:
        return "it starts from random weights"
    return ""


def count_images(data: EpisodeData) -> int:
    """All that is learned from."""
    return sum(len(images) for images in (data.source, *data.memories, data.target or ()))
