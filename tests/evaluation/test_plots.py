"""Pictures are made for any R, and estimates look different from measurements."""

from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.plots import plot_comparison, plot_flips, plot_matrix
from adaptd.records import AccuracyKind


def staircase(n, kind=AccuracyKind.MEASURED):
    """R of n domains, known up to the diagonal."""
    rows = tuple(tuple(Entry(0.9 - j / 100, kind, 10) if j <= t else None for j in range(n)) for t in range(n))
    return Matrix(tuple(f"domain-{j}" for j in range(n)), tuple(range(n)), rows)


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_any_number_of_domains_is_drawn(n, tmp_path):
    """One domain or thirty: the picture has content and a size people can look at."""
    plot_matrix(staircase(n), tmp_path / "R.png", "title")
    with Image.open(tmp_path / "R.png") as image:
        assert image.format == "PNG"
        assert 600 < image.width < 3000
        assert 300 < image.height < 2000
        assert np.asarray(image.convert("L")).std() > 10


def test_unknown_and_late_domains_are_drawn(tmp_path):
    """Empty columns, unknown entries and second deliveries are no obstacle."""
    known = Entry(0.5, AccuracyKind.MEASURED)
    rows = ((known, None), (None, None), (known, None), (None, None))
    plot_matrix(Matrix(("source", "a"), (0, 1, 2, 5), rows, (0, 1)), tmp_path / "R.png")
    assert (tmp_path / "R.png").stat().st_size > 0


def test_estimates_are_told_from_measurements(tmp_path):
    """The same numbers give another picture when they are estimates, and the same one when drawn again."""
    pictures = []
    for kind in (AccuracyKind.MEASURED, AccuracyKind.ESTIMATED, AccuracyKind.MEASURED):
        plot_matrix(staircase(3, kind), tmp_path / "R.png")
        pictures.append((tmp_path / "R.png").read_bytes())
    assert pictures[0] != pictures[1]
    assert pictures[0] == pictures[2]


def test_what_was_before_the_first_episode_is_drawn(tmp_path):
    """An entry above the diagonal changes the line, not only the heat map: the evolution's half of the picture differs."""
    known, halves = Entry(0.9, AccuracyKind.MEASURED), []
    for before in (None, Entry(0.4, AccuracyKind.MEASURED)):
        plot_matrix(Matrix(("source", "a"), (0, 1), ((known, before), (known, known))), tmp_path / "R.png")
        with Image.open(tmp_path / "R.png") as image:
            halves.append(np.asarray(image.crop((image.width // 2, 0, image.width, image.height))))
    assert (halves[0] != halves[1]).any()


def test_methods_are_compared(tmp_path):
    """Several methods with several seeds are drawn, also where BWT is undefined."""
    runs = {"grcl": [staircase(4), staircase(4)], "source-only": [staircase(2)]}
    plot_comparison(runs, tmp_path / "methods.png", "digits")
    with Image.open(tmp_path / "methods.png") as image:
        assert image.width > 600


@dataclass
class Seen:
    """An image that two versions see differently."""

    pixels: np.ndarray
    domain: str = "night"
    before: str = "cat"
    after: str = "dog"
    label: str | None = None


@pytest.mark.parametrize("count", [1, 8, 11])
def test_every_image_that_got_another_class_is_drawn(count, tmp_path):
    """Red images leave red in the picture, more of them more of it."""
    red = np.zeros((3, 8, 8), np.uint8)
    red[0] = 255
    plot_flips([Seen(red)] * count, tmp_path / "flips.png")
    with Image.open(tmp_path / "flips.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert ((pixels - (255, 0, 0) == 0).all(axis=2)).sum() > count * 5000
