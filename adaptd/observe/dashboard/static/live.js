// Keeps a page up to date while the daemon works. Without it every page still tells everything as of its loading.
"use strict";

const MOST = 1000;  // then the store is asked again, which keeps fewer
let points = [];
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
  charts.drawAll();
}

// The episode from its start, as the store has it; what is told since then comes with the stream.
async function recall() {
  points = [];
  if (!document.querySelector("[data-live]")) return;
  const answer = await fetch("/curves.json");
  if (answer.ok) points = await answer.json();
}

function draw(figure) {
  const key = figure.dataset.live, told = points.filter((point) => Object.keys(point.live[key] || {}).length);
  const names = [...new Set(told.flatMap((point) => Object.keys(point.live[key])))];
  if (!names.length) return;
  const columns = names.map((name) => told.map((point) => point.live[key][name] ?? null));
  charts.draw(figure, { x: "step", unit: "", kind: "lines", names, xs: told.map((point) => point.step), columns });
}

async function show(now) {
  say("daemon-state", now.state);
  const badge = find("daemon-state");
  if (badge) badge.className = `state state-${now.state}`;
  if (!now.episode) return;
  const progress = find("live-progress");
  if (progress) progress.value = now.episode.progress;
  say("live-phase", now.episode.phase);
  say("live-step", `step ${now.episode.step} of ${now.episode.steps}`);
  say("live-left", now.episode.eta_seconds === null ? "" : `, ${duration(now.episode.eta_seconds)} left`);
  const { step, live, phase } = now.episode, last = () => (points.length ? points[points.length - 1].step : 0);
  const wentBack = phase === "training" && step < last();
  if (now.episode.started_at !== episode || wentBack || points.length > MOST) {
    episode = now.episode.started_at;
    await recall().catch(() => {});
  }
  if (Object.keys(live.losses || {}).length && step > last()) points.push({ step, live });
  document.querySelectorAll("[data-live]").forEach(draw);
}

const source = new EventSource("/events/stream");
source.onopen = () => { find("live-note").hidden = false; };
source.onerror = () => { find("live-note").hidden = true; };
source.onmessage = async (message) => {
  const now = JSON.parse(message.data);
  if (stamp !== null && now.stamp !== stamp) await refresh().catch(() => {});
  stamp = now.stamp;
  await show(now).catch(() => {});
};
addEventListener("pagehide", () => source.close());
