"""R as pictures: heat map, evolution, methods side by side. matplotlib is imported when something is drawn, not before.

Colours are safe for colour-blind readers (cividis; Okabe and Ito's palette). An estimate is told from a measurement by
shape, not by colour: hatched and with a tilde in the heat map, hollow in the evolution.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, Protocol

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.metrics import acc, bwt
from adaptd.records import AccuracyKind

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_PALETTE = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
_MARKERS = "os^Dv<>P"
_ESTIMATED_NOTE = "~ hatched, hollow: estimated without labels"


def plot_matrix(matrix: Matrix, target: Path, title: str = "") -> None:
    """Heat map of R and the evolution of every domain over the episodes, as one PNG."""
    many = len(matrix.domains) > 12
    cell = 0.36 if many else 0.62
    map_width = 1.4 + cell * max(len(matrix.domains), 3)
    height = max(3.4, 1.8 + cell * len(matrix.rows))
    figure = _new_figure(map_width + 6.6, height)
    heat_map, evolution = figure.subplots(1, 2, width_ratios=(map_width, 6.6))
    _draw_heat_map(heat_map, matrix, font_size=6.5 if many else 9, digits=0 if many else 1)
    _draw_evolution(evolution, matrix)
    _save(figure, target, title, _ESTIMATED_NOTE if matrix.count(AccuracyKind.ESTIMATED) else "")


def plot_comparison(runs: Mapping[str, Sequence[Matrix]], target: Path, title: str = "") -> None:
    """Methods side by side, each with one R a seed: how the first target fares, ACC and BWT; mean and deviation."""
    figure = _new_figure(13, max(4.4, 1.4 + 0.4 * len(runs)))
    evolution, middle, last = figure.subplots(1, 3, width_ratios=(5, 3, 3))
    for number, (method, matrices) in enumerate(runs.items()):
        _draw_first_target(evolution, method, matrices, _style(number))
    evolution.set(xlabel="after episode", ylabel="accuracy, %", title="first target domain")
    _finish_lines(evolution)
    for axes, name, metric in ((middle, "ACC, %", acc), (last, "BWT, points", bwt)):
        _draw_bars(axes, {method: _percent([metric(matrix) for matrix in runs[method]]) for method in runs})
        axes.set_title(name)
    last.set_yticklabels([])
    _save(figure, target, title, "mean over seeds, whiskers and bands: standard deviation")


def plot_gains(gains: Mapping[tuple[str, str], float], target: Path, title: str = "") -> None:
    """What each target gained from each source, in points: blue is better, red is worse."""
    from matplotlib import colormaps  # noqa: PLC0415 — see the module's docstring
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    names = list(dict.fromkeys(name for pair in gains for name in pair))
    figure = _new_figure(2.2 + 0.8 * len(names), 2.0 + 0.7 * len(names))
    axes = figure.subplots()
    most = max(1.0, *(abs(gain) for gain in gains.values()))
    for (source, domain), gain in gains.items():
        x, y = names.index(domain), names.index(source)
        axes.add_patch(
            Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colormaps["RdBu"](0.5 + 0.4 * gain / most), edgecolor="white")
        )
        axes.text(x, y, f"{gain:+.1f}", ha="center", va="center", fontsize=9)
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), aspect="equal", xlabel="target", ylabel="source")
    axes.set_xticks(range(len(names)), [_short(name) for name in names], rotation=90)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _save(figure, target, title, "gain of the target in points, mean over seeds")


def plot_alone(values: Mapping[str, Mapping[str, Sequence[float]]], target: Path, title: str = "") -> None:
    """What each method reaches on the source and, in the mean, on targets that it was adapted to one by one."""
    figure = _new_figure(9, max(2.6, 1.6 + 0.4 * len(values)))
    for number, (axes, part) in enumerate(zip(figure.subplots(1, 2), ("source", "target"), strict=True)):
        _draw_bars(axes, {method: _percent(parts[part]) for method, parts in values.items()})
        axes.set_title("source, %" if part == "source" else "targets, mean, %")
        if number:
            axes.set_yticklabels([])
    _save(figure, target, title, "mean over seeds, whiskers: standard deviation")


@dataclass(frozen=True, slots=True)
class Line:
    """A named curve."""

    name: str
    points: Sequence[tuple[float, float]]


def plot_sweep(lines: Sequence[Line], what: str, target: Path, title: str = "") -> None:
    """ACC in percent by what was varied, on a logarithmic axis."""
    figure = _new_figure(7, 4)
    axes = figure.subplots()
    for number, line in enumerate(lines):
        axes.plot(*_columns(line.points), label=line.name, **_style(number))
    ticks = sorted({x for line in lines for x, _ in line.points})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="#e0e0e0", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel=what, ylabel="ACC, %")
    axes.legend(fontsize=8, frameon=False)
    _save(figure, target, title, "mean over seeds")


class Flip(Protocol):
    """An image that got another class."""

    @property
    def domain(self) -> str:
        """Where it is from."""

    @property
    def before(self) -> str:
        """The class it had."""

    @property
    def after(self) -> str:
        """The class it has."""

    @property
    def label(self) -> str | None:
        """The truth, where it is known."""

    @property
    def pixels(self) -> "NDArray[np.uint8]":
        """[3, H, W]."""


def plot_flips(flips: Sequence[Flip], target: Path) -> None:
    """Images that two versions see differently, each with both classes and, where known, the truth."""
    columns = min(8, max(1, len(flips)))
    rows = max(1, math.ceil(len(flips) / columns))
    figure = _new_figure(1.5 * columns + 0.4, 1.9 * rows + 0.8)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for place in axes:
        place.axis("off")
    for place, flip in zip(axes, flips, strict=False):
        place.imshow(flip.pixels.transpose(1, 2, 0))
        truth = "" if flip.label is None else f"\ntruth {_short(flip.label)}"
        place.set_title(f"{_short(flip.domain)}\n{_short(flip.before)} → {_short(flip.after)}{truth}", fontsize=7)
    _save(figure, target, "" if flips else "no image got another class", "")


def _draw_heat_map(axes: "Axes", matrix: Matrix, font_size: float, digits: int) -> None:
    for t, row in enumerate(matrix.rows):
        for j, entry in enumerate(row):
            _draw_cell(axes, (j, t), entry, font_size, digits)
    axes.set(xlim=(-0.5, len(matrix.domains) - 0.5), ylim=(len(matrix.rows) - 0.5, -0.5), aspect="equal")
    axes.set_xticks(range(len(matrix.domains)), [_short(name) for name in matrix.domains], rotation=90)
    axes.set_yticks(range(len(matrix.rows)), [str(episode) for episode in matrix.episodes])
    axes.tick_params(length=0, labelsize=font_size)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="on domain", ylabel="after episode", title="R, accuracy in %")


def _draw_cell(axes: "Axes", at: tuple[int, int], entry: Entry | None, font_size: float, digits: int) -> None:
    from matplotlib import colormaps  # noqa: PLC0415 — see the module's docstring
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    corner = (at[0] - 0.5, at[1] - 0.5)
    face = "#f2f2f2" if entry is None else colormaps["cividis"](entry.value)
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=face, edgecolor="white"))
    if entry is None:
        return
    ink = "white" if entry.value < 0.55 else "black"
    text = f"{100 * entry.value:.{digits}f}"
    if entry.kind is AccuracyKind.ESTIMATED:
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor=ink, alpha=0.25, linewidth=0))
        text = "~" + text
    # The patch behind the number keeps the hatching away from it, so that a tilde is not read as a minus.
    patch = {"facecolor": face, "edgecolor": "none", "pad": 1.0}
    axes.text(*at, text, ha="center", va="center", color=ink, fontsize=font_size, bbox=patch)


def _draw_evolution(axes: "Axes", matrix: Matrix) -> None:
    few = len(matrix.domains) <= len(_PALETTE)
    for j, domain in enumerate(matrix.domains):
        column = zip(matrix.episodes, (row[j] for row in matrix.rows), strict=True)
        story = list(column)[matrix.begin(j) :]
        known = [(episode, 100 * entry.value, entry.kind) for episode, entry in story if entry is not None]
        style = _style(j) if few or j == 0 else _style_of_many(j, len(matrix.domains))
        axes.plot([x for x, _, _ in known], [y for _, y, _ in known], label=_short(domain), **style)
        hollow = [(x, y) for x, y, kind in known if kind is AccuracyKind.ESTIMATED]
        axes.plot(*_columns(hollow), **style | {"linestyle": "", "markerfacecolor": "white"})
    axes.set(xlabel="after episode", ylabel="accuracy, %", title="each domain, from just before its first episode")
    _finish_lines(axes)
    # Thirty names cannot be told apart by colour: then the colour says how early a domain came.
    handles, labels = axes.get_legend_handles_labels()
    shown = range(len(handles)) if few else [0, 1, len(handles) // 2, len(handles) - 1]
    axes.legend(
        [handles[i] for i in shown],
        [labels[i] for i in shown],
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1, 1),
    )


def _draw_first_target(axes: "Axes", method: str, matrices: Sequence[Matrix], style: dict[str, Any]) -> None:
    by_episode: dict[int, list[float]] = {}
    for matrix in matrices:
        for episode, row in zip(matrix.episodes, matrix.rows, strict=True):
            if len(row) > 1 and row[1] is not None:
                by_episode.setdefault(episode, []).append(100 * row[1].value)
    episodes = sorted(by_episode)
    middles = [mean(by_episode[episode]) for episode in episodes]
    spreads = [_deviation(by_episode[episode]) for episode in episodes]
    axes.plot(episodes, middles, label=method, **style)
    lows, highs = ([m + sign * s for m, s in zip(middles, spreads, strict=True)] for sign in (-1, 1))
    axes.fill_between(episodes, lows, highs, color=style["color"], alpha=0.12, linewidth=0)


def _draw_bars(axes: "Axes", values: Mapping[str, Sequence[float]]) -> None:
    """A bar for each method, in the colour of its line; a method without a value is said to have none."""
    for number, known in enumerate(values.values()):
        if not known:
            axes.text(0, number, " undefined", va="center", fontsize=8, color="#666666")
            continue
        length, spread = mean(known), _deviation(known)
        axes.barh(number, length, xerr=spread or None, color=_style(number)["color"], height=0.7, capsize=3, ecolor="#666666")
        beyond = length + math.copysign(spread, length)
        offset, side = ((3, 0), "left") if length >= 0 else ((-3, 0), "right")
        axes.annotate(f"{length:.1f}", (beyond, number), offset, textcoords="offset points", ha=side, va="center", fontsize=8)
    axes.set_yticks(range(len(values)), list(values), fontsize=8)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)


def _style(number: int) -> dict[str, Any]:
    """Colour, marker and dash differ, so that any one of them is enough to follow a line."""
    dash = ("-", "--", ":")[number // len(_PALETTE) % 3]
    colour, marker = _PALETTE[number % len(_PALETTE)], _MARKERS[number % len(_MARKERS)]
    return {"color": colour, "marker": marker, "markersize": 5, "linestyle": dash, "linewidth": 1.6}


def _style_of_many(j: int, domains: int) -> dict[str, Any]:
    from matplotlib import colormaps  # noqa: PLC0415

    return {"color": colormaps["viridis"](0.95 * j / domains), "marker": "o", "markersize": 2.5, "linewidth": 1}


def _finish_lines(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    low, high = axes.get_xlim()
    axes.set_xlim(min(low, math.floor(low + 0.5) - 0.3), max(high, math.ceil(high - 0.5) + 0.3))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _new_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415

    # Figure without pyplot: no display is looked for and no global list keeps the figure alive.
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def _save(figure: "Figure", target: Path, title: str, note: str) -> None:
    if title:
        figure.suptitle(title)
    if note:
        figure.supxlabel(note, fontsize=8, color="#444444")
    figure.savefig(target, format="png")


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"


def _percent(values: Sequence[float | None]) -> list[float]:
    return [100 * value for value in values if value is not None]


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
