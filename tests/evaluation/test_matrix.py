"""R is what it says, refuses what it cannot be, and has the shape others rely on."""

import json
import subprocess
import sys

import pytest

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.metrics import summarize
from adaptd.records import AccuracyKind

R = Matrix(
    ("source", "camera-7"),
    (0, 1),
    (
        (Entry(0.91, AccuracyKind.MEASURED, 100), None),
        (Entry(0.0, AccuracyKind.MEASURED, 100), Entry(0.83, AccuracyKind.ESTIMATED, 50, 0.7, 0.9, held_out=True)),
    ),
)


def test_json_has_the_shape_of_the_interface():
    """`domains`, `episodes`, `R` and `kind` are as promised; an accuracy of 0 is a number, not null."""
    written = json.loads(json.dumps(R.to_json()))
    assert written == {
        "domains": ["source", "camera-7"],
        "episodes": [0, 1],
        "R": [[0.91, None], [0.0, 0.83]],
        "kind": [["measured", None], ["measured", "estimated"]],
        "forgotten": [],
        "n": [[100, None], [100, 50]],
        "low": [[None, None], [None, 0.7]],
        "high": [[None, None], [None, 0.9]],
        "held_out": [[False, None], [False, True]],
    }


def test_csv():
    """A line for each known entry."""
    assert R.to_csv() == (
        "episode,domain,accuracy,kind,n,low,high,held_out\n0,source,0.91,measured,100,,,False\n"
        "1,source,0.0,measured,100,,,False\n1,camera-7,0.83,estimated,50,0.7,0.9,True\n"
    )


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), 91])
def test_accuracies_are_shares(value):
    """Percent, NaN and the like are refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        Entry(value, AccuracyKind.MEASURED)


@pytest.mark.parametrize(
    ("domains", "episodes", "rows", "first_rows"),
    [
        (("a", "b"), (0,), ((None, None), (None, None)), ()),
        (("a", "b"), (0, 1), ((None,), (None,)), ()),
        (("a", "a"), (0, 1), ((None, None), (None, None)), ()),
        (("a", "b"), (1, 0), ((None, None), (None, None)), ()),
        (("a", "b"), (0,), ((None, None),), ()),
        (("a", "b"), (0, 1), ((None, None), (None, None)), (1, 0)),
        (("a", "b"), (0, 1), ((None, None), (None, None)), (0,)),
    ],
)
def test_contradictions_are_refused(domains, episodes, rows, first_rows):
    """Wrong shapes, repeated domains, unordered episodes and marks without a row are errors."""
    with pytest.raises(ValueError, match=r"R must|must be|comes first"):
        Matrix(domains, episodes, rows, first_rows)


def test_status_needs_neither_numpy_nor_torch():
    """R, its metrics and intervals load with the standard library alone."""
    program = """
import sys
import adaptd.evaluation.matrix, adaptd.evaluation.metrics, adaptd.evaluation.intervals, adaptd.evaluation.plots
print([name for name in ("numpy", "torch", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"


def test_a_forgotten_domain_is_history():
    """Its column stays in R and in its counts, and no metric counts it, also where its last entry is unknown."""
    known, unknown = Entry(0.5, AccuracyKind.MEASURED), None
    rows = ((known, unknown, unknown), (known, known, unknown), (known, unknown, known))
    matrix = Matrix(("source", "night", "dusk"), (0, 1, 2), rows, forgotten=frozenset({"night"}))
    assert matrix.remembered() == Matrix(("source", "dusk"), (0, 1, 2), ((known, None), (known, None), (known, known)), (0, 2))
    metrics = summarize(matrix)
    assert (metrics.acc, metrics.measured, set(metrics.forgetting)) == (0.5, 5, {"source", "dusk"})


def test_a_domain_begins_just_before_its_first_episode():
    """With the newest row in which it was known by then, which need not be the one before; else with its first episode."""
    known = Entry(0.5, AccuracyKind.MEASURED)
    rows = ((known, known, None), (known, None, None), (known, known, None), (known, known, known))
    matrix = Matrix(("source", "night", "dusk"), (0, 1, 2, 3), rows, (0, 2, 3))
    assert [matrix.begin(column) for column in range(3)] == [0, 0, 3]
