// Keeps a page up to date while the daemon works. Without it every page still tells everything as of its loading.
"use strict";

const KEPT = 300;
const SVG = "http://www.w3.org/2000/svg";
const points = [];
let stamp = null;
let episode = null;

const find = (id) => document.getElementById(id);

function say(id, text) {
  const element = find(id);
  if (element && element.textContent !== text) element.textContent = text;
}

function duration(seconds) {
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

// A page whose stamp is old is fetched again, and its parts that may change are put in place of the old ones.
async function refresh() {
  const parts = document.querySelectorAll("[data-part]");
  if (!parts.length) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    const other = fresh.getElementById(part.id);
    if (other && !part.contains(document.activeElement)) part.replaceWith(document.adoptNode(other));
  }
  const here = find("live"), there = fresh.getElementById("live");
  const same = here && there && here.dataset.episode === there.dataset.episode;
  if (here && !same) here.remove();
  if (there && !same) find("cards").after(document.adoptNode(there));
}

function draw(figure) {
  const key = figure.dataset.key, svg = figure.querySelector("svg"), legend = figure.querySelector(".legend");
  const names = [...new Set(points.flatMap((point) => Object.keys(point.live[key] || {})))];
  const values = points.flatMap((point) => Object.values(point.live[key] || {}));
  if (!names.length) return;
  const low = Math.min(0, ...values), high = Math.max(...values, low + 1e-6);
  const first = points[0].step, last = Math.max(points[points.length - 1].step, first + 1);
  const scale = document.createElementNS(SVG, "text");
  scale.setAttribute("x", "6");
  scale.setAttribute("y", "11");
  scale.textContent = `${high.toPrecision(3)} at the top, ${low.toPrecision(1)} at the bottom; steps ${first} to ${last}`;
  svg.replaceChildren(scale);
  legend.replaceChildren();
  names.forEach((name, number) => {
    const known = points.filter((point) => name in (point.live[key] || {}));
    const places = known.map((point) => [
      6 + (308 * (point.step - first)) / (last - first),
      16 + 98 * (1 - (point.live[key][name] - low) / (high - low)),
    ]);
    const group = document.createElementNS(SVG, "g");
    group.setAttribute("class", `style-${number % 8}`);
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", places.map((place) => place.map((x) => x.toFixed(1)).join(",")).join(" "));
    group.append(line);
    if (places.length) {
      const dot = document.createElementNS(SVG, "circle");
      ["cx", "cy"].forEach((axis, i) => dot.setAttribute(axis, places[places.length - 1][i].toFixed(1)));
      dot.setAttribute("r", "3");
      group.append(dot);
    }
    svg.append(group);
    const item = document.createElement("li");
    item.className = `style-${number % 8}`;
    item.textContent = `${name} ${known[known.length - 1].live[key][name].toFixed(3)}`;
    legend.append(item);
  });
}

function show(now) {
  say("daemon-state", now.state);
  const badge = find("daemon-state");
  if (badge) badge.className = `state state-${now.state}`;
  if (!now.episode) return;
  const progress = find("live-progress");
  if (progress) progress.value = now.episode.progress;
  say("live-phase", now.episode.phase);
  say("live-step", `step ${now.episode.step} of ${now.episode.steps}`);
  say("live-left", now.episode.eta_seconds === null ? "" : `, ${duration(now.episode.eta_seconds)} left`);
  if (now.episode.started_at !== episode) points.length = 0;
  episode = now.episode.started_at;
  const newest = points[points.length - 1];
  if (Object.keys(now.episode.live).length && (!newest || newest.step !== now.episode.step)) {
    points.push({ step: now.episode.step, live: now.episode.live });
    if (points.length > KEPT) points.shift();
  }
  document.querySelectorAll(".live-chart").forEach(draw);
}

const source = new EventSource("/events/stream");
source.onopen = () => { find("live-note").hidden = false; };
source.onerror = () => { find("live-note").hidden = true; };
source.onmessage = async (message) => {
  const now = JSON.parse(message.data);
  if (stamp !== null && now.stamp !== stamp) await refresh().catch(() => {});
  stamp = now.stamp;
  show(now);
};
addEventListener("pagehide", () => source.close());
