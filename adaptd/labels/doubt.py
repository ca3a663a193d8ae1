"""How much a label of each image would teach: most where the promoted version and the source model disagree. Needs torch."""

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.evaluator import predict
from adaptd.labels.choosing import Gallery
from adaptd.library.cache import open_cache, take
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.releases.images import join_sets
from adaptd.releases.succession import find_source_version
from adaptd.releases.weights import load_version
from adaptd.store import Store

NOTED = 20_000
"""More images than this are not looked at: enough to find doubtful ones among."""


def find_doubts(project: Project, store: Store, gallery: Gallery) -> list[float]:
    """Of each image that may teach, in order: 1 where both disagree, plus how unsure the promoted version is."""
    layout = Layout(project.state)
    images = gallery.teachable()[:NOTED]
    if not images:
        return []
    parts = {(image.delivery, image.split) for image in images}
    ids = [image.id for image in images]
    caches = [open_cache(layout.cache(gallery.domain.id, *part)).images for part in sorted(parts)]
    known = join_sets([take(cache, [key for key in ids if key in set(cache.ids.tolist())]) for cache in caches])
    pixels = take(ImageSet(known.ids, known.pixels), ids)
    with store.reading() as tx:
        first = find_source_version(tx.versions.list_all(), tx.episodes.list_all())
        versions = [version for version in (first, tx.versions.find_base()) if version is not None]
    logits = [predict(load_version(layout, version), pixels, project.settings.evaluation.batch_size) for version in versions]
    doubts = find_doubt(logits[0], logits[-1]).tolist()
    return [*doubts, *([-1.0] * (len(gallery.teachable()) - len(images)))]


def find_doubt(first: NDArray[np.float32], last: NDArray[np.float32]) -> NDArray[np.float64]:
    """From the logits of two models on the same images: 1 where they disagree, plus how unsure the last one is."""
    odds = np.exp(last.astype(np.float64) - last.max(axis=1, keepdims=True))
    sure = odds.max(axis=1) / odds.sum(axis=1)
    doubt: NDArray[np.float64] = (first.argmax(axis=1) != last.argmax(axis=1)) + 1.0 - sure
    return doubt
