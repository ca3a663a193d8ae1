// Labelling by key: each label is sent at once, one after another, and the next image comes up meanwhile. Without this script
// every button is a form.
"use strict";

(() => {
  const form = document.getElementById("labelling");
  if (!form) return;
  const at = (id) => document.getElementById(id);
  const images = [...document.querySelectorAll("#label-grid a")];
  const keys = at("label-keys"), token = at("token");
  const undoable = [];
  let place = Number(form.dataset.place), sending = Promise.resolve();

  const caption = (link) => link.parentElement.querySelector("figcaption");
  const say = (text, bad) => { at("label-said").textContent = text; at("label-said").className = bad ? "bad" : ""; };

  function show(number) {
    images[place].removeAttribute("aria-current");
    place = (number + images.length) % images.length;
    const link = images[place], label = caption(link).textContent;
    link.setAttribute("aria-current", "true");
    form.elements.image.value = link.dataset.image;
    at("subject").src = link.querySelector("img").src;
    at("subject").alt = link.dataset.name;
    at("subject-name").textContent = `${place + 1}: ${link.dataset.name}${label === "–" ? "" : `, labelled ${label}`}`;
  }

  function next() {
    for (let step = 1; step <= images.length; step += 1) {
      const number = (place + step) % images.length;
      if (caption(images[number]).textContent === "–") return show(number);
    }
    return say("All of them are labelled.");
  }

  async function post(fields) {
    const body = new URLSearchParams({ ...fields, token: token.value });
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
    const text = await answer.text();
    if (!answer.ok) throw new Error(JSON.parse(text).error);
    const known = JSON.parse(text);
    const done = images.filter((link) => caption(link).textContent !== "–").length;
    at("label-progress").value = done;
    at("label-done").textContent = done;
    if (at("label-points")) {
      at("label-points").textContent = known.points === null ? "no measurement yet"
        : `an accuracy is known to ± ${known.points} points at worst`;
    }
    return known;
  }

  function queue(fields, failed) {
    sending = sending.then(() => post(fields)).catch((problem) => { failed(); say(problem.message, true); });
    return sending;
  }

  function give(label) {
    const number = place, before = caption(images[number]).textContent;
    caption(images[number]).textContent = label;
    undoable.push([number, before]);
    queue({ image: images[number].dataset.image, label }, () => {
      caption(images[number]).textContent = before;
      show(number);
      token.focus();
    });
    say("");
    next();
  }

  function undo() {
    const [number, before] = undoable.pop() || [place, "–"];
    const label = caption(images[number]).textContent;
    if (label === "–") return;
    caption(images[number]).textContent = before;
    show(number);
    const image = images[number].dataset.image;
    queue(before === "–" ? { image, undo: "1" } : { image, label: before }, () => { caption(images[number]).textContent = label; });
  }

  const moves = { Backspace: undo, ArrowLeft: () => show(place - 1), ArrowRight: () => show(place + 1) };
  keys.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const button = [...form.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key.toLowerCase());
    if (!button && !(event.key in moves)) return;
    event.preventDefault();
    if (button) give(button.value);
    else moves[event.key]();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = event.submitter;
    if (button && button.name === "label") return give(button.value);
    if (button && button.name === "undo") return undo();
    say("");
    return queue({ check: "1" }, () => token.focus()).then(() => {
      if (!at("label-said").className) { say("The token is right: label by key or click."); keys.focus(); }
    });
  });
  for (const [id, step] of [["label-before", -1], ["label-next", 1]]) {
    at(id).addEventListener("click", (event) => { event.preventDefault(); show(place + step); });
  }
  images.forEach((link, number) => link.addEventListener("click", (event) => {
    event.preventDefault();
    show(number);
    keys.focus();
  }));
})();
