"""What an episode changed, image by image, for a few images of each domain: for confusion tables and feature maps.

The coordinates are of one plane for all points, before and after, so that moves can be seen. Models are asked elsewhere.
"""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = "adaptd.insight/1"

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Insight:
    """Item i of every list belongs to the same image. Labels and predictions are indices of `classes`.

    Args:
        classes: their names.
        ids: of the images in the store.
        domains: the id of each image's domain.
        labels: the truth, None where it is not known.
        before: predictions of the version before; empty for the first.
        after: predictions of the episode's own.
        before_points: features of the version before in the plane, each coordinate in 0…1; empty for the first.
        after_points: features of the episode's own, likewise.
        before_confidence: the probability of each prediction of the version before; empty for the first.
        after_confidence: of the episode's own; empty where an older adaptd wrote it.
    """

    classes: tuple[str, ...]
    ids: tuple[int, ...]
    domains: tuple[int, ...]
    labels: tuple[int | None, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    before_points: Points = ()
    after_points: Points = ()
    before_confidence: tuple[float, ...] = ()
    after_confidence: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        lengths = {len(self.ids), len(self.domains), len(self.labels), len(self.after)}
        others = (self.before, self.before_points, self.after_points, self.before_confidence, self.after_confidence)
        optional = {len(items) for items in others if items}
        if len(lengths | optional) != 1:
            raise ValueError("an insight needs one domain, label and prediction for each of its images")
        known = (*self.before, *self.after, *(label for label in self.labels if label is not None))
        if any(not 0 <= each < len(self.classes) for each in known):
            raise ValueError("a label or prediction of an insight is not a class")

    def to_text(self) -> str:
        """As it is stored."""
        return json.dumps({"schema": SCHEMA, **asdict(self)})


def parse_insight(text: str) -> Insight:
    """The reverse of `to_text`; ValueError for anything else."""
    try:
        stored: dict[str, Any] = json.loads(text)
        if stored.pop("schema") != SCHEMA:
            raise ValueError("an insight of another adaptd")
        values: dict[str, Any] = {}
        for name, items in stored.items():
            values[name] = tuple(tuple(item) if isinstance(item, list) else item for item in items)
        return Insight(**values)
    except (TypeError, KeyError, AttributeError) as problem:
        raise ValueError(f"no insight: {problem!r}") from problem


def project_features(after: "NDArray[np.float32]", before: "NDArray[np.float32] | None" = None) -> tuple[Points, Points]:
    """Features [n, d] of both models in the plane in which they differ most; (before, after), before empty without one."""
    import numpy as np  # noqa: PLC0415 (reading an insight needs none)

    stacked = np.concatenate([after] if before is None else [before, after]).astype(np.float64)
    centred = stacked - stacked.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ directions[:2].T
    plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    low, high = plane.min(axis=0), plane.max(axis=0)
    scaled = np.round((plane - low) / np.where(high > low, high - low, 1), 4)
    points: Points = tuple((float(x), float(y)) for x, y in scaled)
    return (points[: -len(after)], points[-len(after) :]) if before is not None else ((), points)
