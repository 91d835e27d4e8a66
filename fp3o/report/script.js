// A link to a cell opens its section; the box above the cells filters them. Errors are counted where a test can see them.
const root = document.documentElement;
root.dataset.errors = "0";
root.dataset.blocked = "0";
addEventListener("error", () => (root.dataset.errors = String(Number(root.dataset.errors) + 1)));
addEventListener("securitypolicyviolation", () => (root.dataset.blocked = String(Number(root.dataset.blocked) + 1)));

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
  }
}

addEventListener("hashchange", openTarget);
addEventListener("DOMContentLoaded", () => {
  openTarget();
  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const cell of document.querySelectorAll("details.cell")) {
      cell.hidden = !words.every((word) => cell.dataset.cell.includes(word));
    }
  });
  root.dataset.ready = "yes";
});
