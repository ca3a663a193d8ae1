"""Charts as tables: where lines begin, what is left out, and how confidences are counted."""

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.observe.dashboard.charts import chart_confidence, chart_curves, chart_evolution
from adaptd.observe.dashboard.signals import list_signals
from adaptd.records import AccuracyKind


def test_a_line_begins_just_before_the_first_episode():
    """Not earlier, even where more is known; estimates and their ranges are told."""
    known, guess = Entry(0.9, AccuracyKind.MEASURED, 100), Entry(0.4, AccuracyKind.ESTIMATED, 50, 0.3, 0.5)
    matrix = Matrix(("source", "night"), (0, 1, 2), ((known, guess), (known, guess), (known, known)), (0, 2))
    chart = chart_evolution(matrix, [0, 1], range(3))
    assert [x for x, _ in chart.rows] == [0, 1, 2]
    night = [points[1] for _, points in chart.rows]
    assert (night[0], night[1].value, night[1].is_estimate, night[2].value) == (None, 40, True, 90)
    assert night[1].note == "estimated (30–50 %) on 50 images"
    assert chart_evolution(Matrix((), (), ()), [], range(0)) is None


def test_a_long_curve_keeps_its_ends():
    """However few points are wanted; a step that told nothing of the kind is no point."""
    points = [(step, {"losses": {"target": 1 / step}} if step % 2 else {"health": {"balance": 1}}) for step in range(1, 200)]
    rows = chart_curves(points, "losses", 10).rows
    assert (rows[0][0], rows[-1][0]) == (1, 199)
    assert 9 <= len(rows) <= 11
    assert chart_curves(points, "multipliers", 10).rows == ()


def test_confidences_are_counted_in_tenths():
    """A confidence of 1 is in the last one; without any there is no chart."""
    rows = chart_confidence([], [0.05, 0.95, 1.0, 0.99]).rows
    assert [points[0].value for _, points in rows] == [25, 0, 0, 0, 0, 0, 0, 0, 0, 75]
    assert chart_confidence([], []) is None


def test_every_signal_has_its_threshold():
    """From the episode's own settings; what counted against the domain is marked, and an episode that told nothing has none."""
    trust = {"recognition": 0.3, "agreement": 0.5, "balance": 0.6, "spread": 0.4, "confidence": 1.0, "largest": 0.95}
    look = {"agreement": 0.5, "balance": 0.9, "nuclear_norm": 0.5, "confidence": 0.6, "classes": 3}
    report = {"trust": trust | {"largest_class": "dog"}, "health": [look, look | {"balance": 0.5}]}
    report["limits"] = {"spread": 0.5, "largest": 0.9, "balance": 0.9, "lost_classes": 0.2}
    found = {each.name: each for each in list_signals("guarded", report, {"method": {"guarded": {"min_agreement": 0.4}}})}
    bad = {name for name, each in found.items() if each.is_bad}
    assert bad == {"recognition", "spread", "largest class", "evenness of classes"}
    assert found["recognition"].limit == "refused below 0.4"
    assert (found["κ"].value, found["κ"].now) == ("0.50", "0.50")
    assert list_signals("grcl", {}, {}) == []
