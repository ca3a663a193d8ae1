"""Images that lie apart, read as one array."""

import tracemalloc

import numpy as np
import pytest

from adaptd.library.imageset import Gathered, ImageSet
from adaptd.releases.images import join_sets


@pytest.fixture
def parts():
    """Two arrays of small images, and one of none."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (count, 3, 4, 4), dtype=np.uint8) for count in (5, 0, 3)]


@pytest.mark.parametrize(
    "rows", [0, 6, -1, slice(2, 7), slice(None), slice(8, 9), [7, 0, 5, 5], np.arange(8) % 2 == 0, np.empty(0, dtype=np.int64)]
)
def test_gathered_images_are_read_as_of_one_array(parts, rows):
    """By number, slice, rows or mask: what comes out is what one array of all of them gives."""
    whole, gathered = np.concatenate(parts), Gathered(parts)
    assert gathered.shape == whole.shape
    assert np.array_equal(gathered[rows], whole[rows])
    assert gathered[rows].shape == whole[rows].shape
    assert np.array_equal(Gathered([gathered], np.array([6, 1, 2, 3, 4, 5, 0, 7]))[rows], whole[[6, 1, 2, 3, 4, 5, 0, 7]][rows])


def test_gathered_images_are_an_array_where_one_is_needed(parts):
    """Numpy takes them, one after the other too."""
    whole, gathered = np.concatenate(parts), Gathered(parts)
    assert np.array_equal(np.asarray(gathered), whole)
    assert np.array_equal(np.stack(list(gathered)), whole)
    assert np.array_equal(np.concatenate([gathered, whole]), np.concatenate([whole, whole]))


def test_images_of_two_sizes_cannot_be_gathered(parts):
    """They would not be one array."""
    with pytest.raises(ValueError, match="one size"):
        Gathered([*parts, np.empty((2, 3, 8, 8), dtype=np.uint8)])


def test_joining_deliveries_copies_nothing(tmp_path):
    """Two deliveries of ten megabytes each are one set, in a fraction of that memory, and each row is the right one."""
    count, sets = 800, []
    for number in range(2):
        pixels = np.memmap(tmp_path / str(number), dtype=np.uint8, mode="w+", shape=(count, 3, 64, 64))
        pixels[:, 0, 0, 0] = np.arange(count) % 200 + number
        sets.append(ImageSet(number * count + np.arange(count), pixels))
    tracemalloc.start()
    joined = join_sets(sets)
    some = joined.pixels[[3, count + 3]]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert some[:, 0, 0, 0].tolist() == [3, 4]
    assert (len(joined), joined.labels) == (2 * count, None)
    assert peak < 200_000
