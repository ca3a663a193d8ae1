"""The cases as a table and a picture."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

from adaptd.publishing.significance import find_change
from benchmarks.estimates.cases import Case

NAMES = {"range": "**range**, the default", "atc": "ATC, the optimistic end", "check": "agreement, the pessimistic end"}
SAID = {1: "better", -1: "worse", 0: "unclear"}
COVERAGE = ("range covers", "mean width", "range, off on the same images", "test images differ by")
CLEAR = 0.01
"""A change of the true accuracy that is more than a point."""


def render(cases: Sequence[Case], title: str) -> str:
    """Errors of every estimator, coverage of the range, and how often the sign of the change was right."""
    parts: dict[str, Callable[[Case], bool]] = {
        "all": lambda _: True,
        "before": lambda case: case.before,
        "after": lambda case: not case.before,
    }
    methods = list(dict.fromkeys(case.method for case in cases))
    parts |= {f"{name}, {part}": _both(name, parts[part]) for name in methods for part in ("before", "after")}
    parts |= {domain: _on(domain) for domain in dict.fromkeys(case.domain for case in cases)}
    lines = [f"## {title}", "", "Mean absolute error in points, in brackets the mean error (+: flatters).", ""]
    lines += [_row(["cases", "n", *NAMES.values(), *COVERAGE]), _row(["---"] * (len(NAMES) + len(COVERAGE) + 2))]
    for name, wanted in parts.items():
        chosen = [case for case in cases if wanted(case)]
        if chosen:
            lines.append(_row([name, str(len(chosen)), *(_error(chosen, key) for key in NAMES), *_coverage(chosen)]))
    lines += [
        "",
        "Did adaptation help on the domain just learnt? How often the change of an estimate has the sign of the true one.",
        "",
    ]
    lines += [_row(["", *NAMES.values()]), _row(["---"] * (len(NAMES) + 1))]
    lines += [_row(["every episode", *(_signs(cases, key, 0.0) for key in NAMES)])]
    lines += [_row(["true change of more than a point", *(_signs(cases, key, CLEAR) for key in NAMES)])]
    lines += ["", "The same told as the product tells it, or left open: a paired test on all images of the domain.", ""]
    lines += [_row(["", "right", "wrong", "unclear"]), _row(["---"] * 4)]
    lines += [
        _row(["every episode", *_verdicts(cases, 0.0)]),
        _row(["true change of more than a point", *_verdicts(cases, CLEAR)]),
    ]
    lines += ["", "| method | seed | domain | true before → after | range before → after | ATC before → after | said |"]
    lines += [_row(["---"] * 7), *map(_row, _episodes(cases))]
    return "\n".join(lines) + "\n"


def pairs_of(cases: Sequence[Case]) -> list[tuple[Case, Case]]:
    """For each episode, the version before and the one after it on the domain that was learnt."""
    known = {(case.method, case.seed, case.episode, case.domain): case for case in cases}
    return [(known[case.method, case.seed, case.episode - 1, case.domain], case) for case in cases if case.fresh]


def plot(cases: Sequence[Case], path: Path, title: str) -> None:
    """True accuracy against the estimates; bars are the range."""
    figure = Figure(figsize=(10, 4.6))
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (part, before) in zip(axes, (("before adaptation", True), ("after adaptation", False)), strict=True):
        chosen = [case for case in cases if case.before is before]
        axis.plot([0, 100], [0, 100], color="0.6", linewidth=1)
        for case in chosen:
            axis.plot([100 * case.true] * 2, [100 * case.low, 100 * case.high], color="#56b4e9", linewidth=1, alpha=0.5)
        for key, colour, mark in (("atc", "#d55e00", "x"), ("range", "#0072b2", "o")):
            values = [100 * case.values[key] for case in chosen]
            axis.scatter([100 * case.true for case in chosen], values, s=18, c=colour, marker=mark, label=key)
        axis.set(title=f"{title}: {part}", xlabel="true accuracy, %", xlim=(0, 100), ylim=(0, 101))
    axes[0].set_ylabel("estimated accuracy, %")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def _both(method: str, wanted: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: case.method == method and wanted(case)


def _on(domain: str) -> Callable[[Case], bool]:
    return lambda case: case.domain == domain


def _error(cases: Sequence[Case], key: str) -> str:
    errors = [100 * (case.values[key] - case.true) for case in cases]
    return f"{mean(map(abs, errors)):.1f} ({mean(errors):+.1f})"


def _coverage(cases: Sequence[Case]) -> list[str]:
    covered = mean(case.low <= case.true <= case.high for case in cases)
    return [f"{covered:.0%}", f"{100 * mean(case.high - case.low for case in cases):.0f}", *_same_images(cases)]


def _same_images(cases: Sequence[Case]) -> list[str]:
    """How far the default is off where truth is measured on the images it is made on, and how far apart both truths are."""
    known = [(case.values["range"] - case.here, case.here - case.true) for case in cases if case.here is not None]
    return [f"{100 * mean(map(abs, each)):.1f} ({100 * mean(each):+.1f})" for each in zip(*known, strict=True)] or ["", ""]


def _signs(cases: Sequence[Case], key: str, least: float) -> str:
    pairs = [(old, new) for old, new in pairs_of(cases) if abs(new.true - old.true) > least]
    right = sum((new.true > old.true) == (new.values[key] > old.values[key]) for old, new in pairs)
    return f"{right} of {len(pairs)}"


def _verdicts(cases: Sequence[Case], least: float) -> list[str]:
    """How many changes were told right, wrong, and not at all."""
    pairs = [(new.true - old.true, _find_change(new)) for old, new in pairs_of(cases) if abs(new.true - old.true) > least]
    counts = Counter((true > 0) == (said > 0) if said else None for true, said in pairs)
    return [str(counts[key]) for key in (True, False, None)]


def _find_change(case: Case) -> int:
    return 0 if case.flips is None else find_change(*case.flips)


def _episodes(cases: Sequence[Case]) -> Iterable[list[str]]:
    for old, new in pairs_of(cases):
        ranges = [f"{100 * case.values['range']:.0f} ({100 * case.low:.0f}–{100 * case.high:.0f})" for case in (old, new)]
        values = [f"{100 * old.true:.1f} → {100 * new.true:.1f}", " → ".join(ranges)]
        atc = f"{100 * old.values['atc']:.0f} → {100 * new.values['atc']:.0f}"
        yield [new.method, str(new.seed), new.domain, *values, atc, SAID[_find_change(new)]]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
