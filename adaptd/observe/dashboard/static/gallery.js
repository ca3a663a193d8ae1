// Enlarges pictures without leaving the page; arrow keys go on to the next. Without this script each is a link to its picture.
"use strict";

(() => {
  const dialog = document.createElement("dialog"), image = document.createElement("img");
  const caption = document.createElement("p"), close = document.createElement("button");
  dialog.setAttribute("aria-label", "Picture");
  close.textContent = "Close";
  dialog.append(image, caption, close);
  let links = [], place = 0;

  function show(number) {
    place = (number + links.length) % links.length;
    const figure = links[place].closest("figure"), small = links[place].querySelector("img");
    image.src = links[place].href;
    image.alt = small.alt;
    caption.textContent = `${figure.querySelector("figcaption").textContent} (${small.alt})`;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.enlarge");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    links = [...link.closest(".pictures").querySelectorAll("a.enlarge")];
    show(links.indexOf(link));
    if (!dialog.isConnected) document.body.append(dialog);
    dialog.showModal();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") show(place + 1);
    if (event.key === "ArrowLeft") show(place - 1);
  });
  dialog.addEventListener("close", () => { if (links[place]) links[place].focus(); });
  close.addEventListener("click", () => dialog.close());
})();
