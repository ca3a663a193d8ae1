// With a script, a picture that is chosen or dropped anywhere on the page is asked about at once; without, the button does it.
const form = document.getElementById("try");
const input = document.getElementById("image");

input.addEventListener("change", () => { if (input.files.length) form.requestSubmit(); });
addEventListener("dragover", (event) => { event.preventDefault(); form.classList.add("over"); });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) form.classList.remove("over"); });
addEventListener("drop", (event) => {
  if (event.target === input) return;
  event.preventDefault();
  form.classList.remove("over");
  if (!event.dataTransfer.files.length) return;
  input.files = event.dataTransfer.files;
  form.requestSubmit();
});
document.getElementById("answers")?.focus();
