"""What a model makes of many images, in a file without a name."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from adaptd.learning.backbones import build_classifier
from adaptd.learning.scratch import Rows, find_folder
from adaptd.learning.survey import survey


def own_bytes() -> int:
    """Memory of this process that is no file's."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


def test_rows_are_on_the_disk_and_nowhere_else(tmp_path):
    """A hundred megabytes of rows cost no memory of the process's own, and leave no file."""
    rows, block = Rows(tmp_path, 1024), torch.arange(1024 * 1024.0).view(1024, 1024)
    before = own_bytes()
    for number in range(25):
        rows.add(block + number)
    read = rows.read()
    total = sum(float(read[start : start + 1024, 0].double().sum()) for start in range(0, len(read), 1024))
    assert own_bytes() - before < 25e6
    assert read.shape == (25 * 1024, 1024)
    assert total == 25 * float(block[:, 0].double().sum()) + 1024 * sum(range(25))
    assert not list(tmp_path.iterdir())


def test_no_rows(tmp_path):
    """Nothing added is nothing read, on the disk and in memory."""
    assert all(Rows(folder, 3).read().shape == (0, 3) for folder in (tmp_path, None))


def test_a_survey_of_mapped_images_is_the_same(tmp_path, squares, settings):
    """Bit for bit, whether images and what is made of them are in memory or on the disk."""
    model, images = build_classifier(settings().model), squares(300, 0, labelled=False)
    pixels = np.memmap(tmp_path / "pixels.u8", dtype=np.uint8, mode="w+", shape=images.pixels.shape)
    pixels[:] = images.pixels
    mapped = replace(images, pixels=pixels)
    assert (find_folder(images), find_folder(mapped)) == (None, tmp_path)
    first, second = (survey(model, each, keys=True) for each in (images, mapped))
    for name in ("logits", "keys", "features"):
        assert torch.equal(getattr(first, name), getattr(second, name)), name
