"""Which image is in which batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptd.errors import NothingToLearn
from adaptd.learning.batches import Batches, EpisodeData, Pool
from adaptd.learning.methods.foundation import adaptation_pools
from adaptd.learning.plan import Plan
from adaptd.library.imageset import ImageSet


def numbered(count: int, first: int, *, labelled: bool = True) -> ImageSet:
    """Image i is filled with its own id, and labelled with it modulo 7: any misalignment shows."""
    ids = np.arange(first, first + count)
    pixels = np.broadcast_to(ids.astype(np.uint8)[:, None, None, None], (count, 3, 4, 4))
    return ImageSet(ids, pixels, ids % 7 if labelled else None)


DATA = EpisodeData(numbered(40, 0), (numbered(5, 100), numbered(9, 120)), numbered(33, 200))


def sizes(data: EpisodeData, settings) -> dict[str, int]:
    """The share of each pool."""
    return {pool.name: pool.share for pool in adaptation_pools(data, Plan.for_adaptation(settings, "grcl"))}


def test_parts_come_at_a_fixed_ratio(settings):
    """256 are 64 source, 64 memory and 128 target; with no memory, or only an empty one, the target takes its share."""
    wide = settings(batch_size=256)
    assert sizes(DATA, wide) == {"source": 64, "memory": 64, "target": 128}
    without = EpisodeData(DATA.source, (), DATA.target)
    assert sizes(without, wide) == {"source": 64, "target": 192}
    empty = EpisodeData(DATA.source, (numbered(0, 100),), DATA.target)
    assert sizes(empty, wide) == {"source": 64, "target": 192}
    assert sizes(DATA, settings(batch_size=256, memory_share=0.0)) == {"source": 64, "target": 192}


def test_images_labels_and_rows_belong_together(settings):
    """Pixels, labels and bank rows of every part are those of the same image, also across several memories."""
    batches = Batches(adaptation_pools(DATA, Plan.for_adaptation(settings(), "grcl")), 3, 0, None)
    ids = np.concatenate([images.ids for images in (DATA.source, *DATA.memories, DATA.target)])
    for step in range(batches.steps):
        batch = batches[step]
        for part in batch.parts:
            shown = (part.images[:, 0, 0, 0] * 255).round().long()
            assert torch.equal(shown, torch.from_numpy(ids)[part.rows])
            assert part.labels is None if part.name == "target" else torch.equal(part.labels, shown % 7)
        assert torch.equal(torch.cat([part.rows for part in batch.parts]), batch.rows)
        assert len(batch.rows.unique()) == len(batch.rows)


def test_every_memory_has_a_pool_of_its_own_where_asked(settings):
    """In the per-domain form each batch has images of every memory."""
    pools = adaptation_pools(DATA, Plan.for_adaptation(settings(), "grcl"), per_domain=True)
    assert [pool.name for pool in pools] == ["source", "memory-1", "memory-2", "target"]
    assert [pool.first_row for pool in pools] == [0, 40, 45, 54]
    assert all(len(part.rows) for part in Batches(pools, 1, 0, None)[3].parts)


@given(st.integers(1, 200), st.integers(1, 70), st.integers(0, 5))
def test_a_pass_shows_every_image_once(count, share, number):
    """Slices of a pass cover the pool exactly, nearly equal in size, and each pass has its own order."""
    pool = Pool("target", (numbered(count, 0),), 0, share)
    batches = Batches([pool], 7, 0, None)
    shown = [batches._indices(pool, number * pool.slices + i) for i in range(pool.slices)]
    assert sorted(torch.cat(shown).tolist()) == list(range(count))
    lengths = [len(part) for part in shown]
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= min(2, count)
    if share > 1 and count % 2 == 0:
        assert max(lengths) <= share
    if count > 20:
        other = torch.cat([batches._indices(pool, (number + 1) * pool.slices + i) for i in range(pool.slices)])
        assert not torch.equal(torch.cat(shown), other)


def test_batches_need_no_history(settings):
    """Batch i is the same whether or not the batches before it were drawn; another seed gives another."""
    pools = adaptation_pools(DATA, Plan.for_adaptation(settings(), "grcl"))
    forward = [batch.rows for batch in (Batches(pools, 3, 5, None)[i] for i in range(6))]
    one = Batches(pools, 3, 5, None)
    backward = [one[i].rows for i in reversed(range(6))]
    assert all(torch.equal(a, b) for a, b in zip(forward, reversed(backward), strict=True))
    assert not torch.equal(Batches(pools, 3, 6, None)[0].rows, forward[0])


def test_a_method_never_sees_target_labels():
    """Whatever is known about the target is taken off before a method sees it."""
    assert numbered(3, 0).labels is not None
    assert EpisodeData(DATA.source, (), numbered(3, 0)).target.labels is None


def test_data_without_labels_or_images_is_refused():
    """A source or memory without labels, and an empty source or target, cannot be learned from."""
    with pytest.raises(NothingToLearn, match="need a label"):
        EpisodeData(numbered(4, 0, labelled=False))
    with pytest.raises(NothingToLearn, match="need a label"):
        EpisodeData(DATA.source, (numbered(4, 0, labelled=False),), DATA.target)
    with pytest.raises(NothingToLearn, match="no images"):
        EpisodeData(DATA.source, (), numbered(0, 0))
