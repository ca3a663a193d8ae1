// Draws the tables of charts with uPlot: axes, values where one points, zoom by dragging, all of it again by a double click.
// The table stays below, for those who cannot see the picture; without this script it is all there is.
"use strict";

const charts = (() => {
  const drawn = new Map();
  const MARKED = 60;  // with more points than these the line alone is drawn
  const DASHES = [[], [9, 3], [3, 3], [12, 3, 3, 3], [], [6, 6], [1.5, 3], [12, 6]];
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A chart is { x, unit, kind, names, xs, columns, hollow, notes }: columns of numbers or
  // null; hollow where they are estimates; what is told where one points at them.
  function read(figure) {
    const table = figure.querySelector("table");
    const [x, ...names] = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows];
    const cells = names.map((_, j) => rows.map((row) => row.cells[j + 1]));
    return {
      x, names, unit: figure.dataset.unit, kind: figure.dataset.kind,
      xs: rows.map((row) => Number(row.cells[0].textContent)),
      columns: cells.map((column) => column.map((cell) => (cell.dataset.value ? Number(cell.dataset.value) : null))),
      hollow: cells.map((column) => column.map((cell) => "estimate" in cell.dataset)),
      notes: cells.map((column) => column.map((cell) => cell.title)),
    };
  }

  function series(chart, j) {
    const line = { label: chart.names[j], stroke: colour(`--c${j % 8}`), width: 2, dash: DASHES[j % 8], spanGaps: true };
    line.value = (_, value, __, i) => {
      if (value === null || value === undefined) return "–";
      return `${Number(value.toPrecision(4))} ${chart.unit.split(" ")[0]} ${chart.notes?.[j]?.[i] ?? ""}`.trim();
    };
    if (chart.kind === "bars") {
      const side = chart.names.length > 1 ? 1 - 2 * (1 - j) : 0;
      return { ...line, dash: [], width: 0, fill: colour(`--c${j ? 1 : 7}`), paths: uPlot.paths.bars({ size: [0.42, 60], align: side }), points: { show: false } };
    }
    return { ...line, points: { show: mark(chart) } };
  }

  // Estimates are told from measurements by shape: their points are hollow.
  function mark(chart) {
    return (u, j, first, last) => {
      if (u.data[0].length > MARKED) return false;
      const hollow = chart.hollow && chart.hollow[j - 1], stroke = u.series[j].stroke(u, j);
      u.ctx.save();
      u.ctx.lineWidth = 2 * devicePixelRatio;
      u.ctx.setLineDash([]);
      u.ctx.strokeStyle = stroke;
      for (let i = first; i <= last; i += 1) {
        const value = u.data[j][i];
        if (value === null || value === undefined) continue;
        u.ctx.beginPath();
        u.ctx.arc(u.valToPos(u.data[0][i], "x", true), u.valToPos(value, "y", true), 3.5 * devicePixelRatio, 0, 2 * Math.PI);
        u.ctx.fillStyle = hollow && hollow[i] ? colour("--raised") : stroke;
        u.ctx.fill();
        u.ctx.stroke();
      }
      u.ctx.restore();
      return false;
    };
  }

  function options(figure, chart) {
    const narrow = figure.clientWidth < 480, soft = colour("--soft"), line = colour("--line");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const whole = chart.x !== "confidence, %";
    const lines = chart.names.map((_, j) => series(chart, j));
    return {
      width: figure.clientWidth, height: narrow ? 200 : 260, series: [{ label: chart.x }, ...lines],
      scales: {
        x: { time: false, range: (_, low, high) => (chart.kind === "bars" ? [0, 100] : low === high ? [low - 1, high + 1] : [low, high]) },
        y: { range: (_, low, high) => (low === null ? [0, 1] : uPlot.rangeNum(chart.kind === "bars" ? 0 : low, high === low ? high + 1 : high, 0.08, chart.unit !== "%" || low < 5)) },
      },
      axes: [
        { ...axis, label: chart.x, labelSize: 18, size: 32, space: 40, incrs: whole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 1e5, 1e6] : undefined },
        { ...axis, label: chart.unit, labelSize: 18, size: narrow ? 40 : 48, space: 28 },
      ],
      cursor: { drag: { x: true, y: false, uni: 8 }, points: { size: 8 } },
      legend: { live: true },
    };
  }

  function prepare(figure) {
    const place = document.createElement("div");
    place.className = "plot";
    place.setAttribute("aria-hidden", "true");
    figure.querySelector("details").before(place);
    figure.querySelector("details").open = false;
    return place;
  }

  function draw(figure, chart) {
    let known = drawn.get(figure);
    if (known && known.chart.names.join("\n") === chart.names.join("\n") && known.width === figure.clientWidth) {
      known.plot.setData([chart.xs, ...chart.columns]);
      known.chart = chart;
      if (known.plot.cursor.left < 0) known.plot.setLegend({ idx: chart.xs.length - 1 });
      return;
    }
    if (known) known.plot.destroy();
    const place = figure.querySelector(".plot") || prepare(figure);
    known = { chart, width: figure.clientWidth };
    known.plot = new uPlot(options(figure, chart), [chart.xs, ...chart.columns], place);
    drawn.set(figure, known);
    // The newest values stand there until one points elsewhere; uPlot first clears them, after this.
    if (chart.kind === "lines") setTimeout(() => known.plot.setLegend({ idx: known.chart.xs.length - 1 }), 0);
  }

  // Whatever has come to the page, or is another size or colour now.
  function drawAll() {
    for (const figure of drawn.keys()) if (!figure.isConnected) { drawn.get(figure).plot.destroy(); drawn.delete(figure); }
    document.querySelectorAll("figure.chart[data-kind]").forEach((figure) => {
      if (drawn.has(figure) || !figure.clientWidth) return;
      const chart = read(figure);
      if (chart.xs.length) draw(figure, chart);
    });
  }

  function again() {
    for (const [figure, known] of drawn) if (known.width !== figure.clientWidth) draw(figure, known.chart);
  }

  function recolour() {
    for (const [figure, known] of drawn) { known.width = -1; draw(figure, known.chart); }
  }

  addEventListener("resize", () => requestAnimationFrame(again));
  dark.addEventListener("change", recolour);
  drawAll();
  return { draw, drawAll, find: (figure) => (drawn.has(figure) ? drawn.get(figure).chart : null) };
})();
