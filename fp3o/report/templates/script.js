// Curves are drawn with Bokeh when they come into view; a link to a folded place unfolds it; the box above the cells filters them.
const CURVES = JSON.parse(document.getElementById("curves").textContent);
const switches = document.getElementById("switches");

/** What the switches say: axis, seeds, range. */
function choice() {
  const chosen = new FormData(switches);
  return { axis: chosen.get("axis"), seeds: chosen.getAll("seed"), whole: chosen.has("whole") };
}

/** Cells of the picture that are not switched off in its list. */
function shownCells(node, cells) {
  const boxes = node.parentElement.querySelectorAll(".sentences input:not(:checked)");
  const off = Array.from(boxes, (box) => box.value);
  return cells.filter((name) => !off.includes(name));
}

/** Title of the horizontal axis and what million steps or hours are multiplied with: small numbers get a smaller unit. */
function unitOf(cells, axis) {
  const last = Math.max(...cells.map((name) => CURVES[name].steps.at(-1) * (axis === "hours" ? CURVES[name].hours : 1)));
  const [large, small] = axis === "hours" ? [["hours", 1], ["minutes", 60]] : [["million steps", 1], ["thousand steps", 1000]];
  return last < 0.5 ? small : large;
}

/** One entry per line: where it runs, how it looks, what it is called. */
function linesOf(cells, { axis, seeds }, scale) {
  return cells.flatMap((name) => {
    const { title, colour, dash, statistic, published, hours, steps, centre, seeds: bySeed } = CURVES[name];
    const x = steps.map((step) => step * scale * (axis === "hours" ? hours : 1));
    const line = (text, values, width, alpha, strokes = []) => ({
      name: `${title}, ${text}`, x, y: values.map((value) => value ?? NaN), colour, width, alpha, dash: strokes,
    });
    const lines = seeds.filter((seed) => seed in bySeed).map((seed) => line(`seed ${seed}`, bySeed[seed], 1, 0.35));
    if (published !== null) lines.push(line("published", steps.map(() => published), 1.5, 0.9, [1, 4]));
    return [...lines, line(statistic, centre, 2.5, 1, dash.map((length) => Math.ceil(1.5 * length)))];
  });
}

async function draw(node) {
  const { cells, metric, late, whole } = JSON.parse(node.dataset.chart);
  const chosen = choice();
  const [unit, scale] = unitOf(cells, chosen.axis);
  const lines = linesOf(shownCells(node, cells), chosen, scale);
  const style = getComputedStyle(node);
  const [ink, soft, grid] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  const figure = Bokeh.Plotting.figure({
    height: 230, sizing_mode: "stretch_width", tools: [], toolbar_location: null, y_range: chosen.whole ? whole : late,
    x_axis_label: unit, y_axis_label: metric,
    background_fill_color: null, border_fill_color: null, outline_line_color: null,
  });
  for (const axis of [...figure.xaxis, ...figure.yaxis]) {
    axis.setv({
      axis_line_color: soft, major_tick_line_color: soft, minor_tick_line_color: null,
      major_label_text_color: soft, axis_label_text_color: ink, axis_label_text_font_style: "normal",
    });
  }
  figure.below[0].formatter.use_scientific = figure.left[0].formatter.use_scientific = false;
  for (const found of [...figure.xgrid, ...figure.ygrid]) found.grid_line_color = grid;
  const column = (name) => lines.map((line) => line[name]);
  figure.multi_line(column("x"), column("y"), {
    line_color: column("colour"), line_width: column("width"), line_alpha: column("alpha"), line_dash: column("dash"),
  });
  // What is pointed at: a point per evaluation, not drawn. Thick lines first: where many meet, one is named.
  const ordered = lines.toSorted((one, other) => other.width - one.width);
  const points = ordered.flatMap(({ name, x, y }) => y.map((value, place) => ({ name, x: x[place], y: value })));
  const source = new Bokeh.ColumnDataSource({
    data: Object.fromEntries(["name", "x", "y"].map((key) => [key, points.map((point) => point[key])])),
  });
  const targets = figure.scatter({ field: "x" }, { field: "y" }, { source, size: 7, alpha: 0, hit_dilation: 1.5 });
  const tooltips = [["", "@name"], [unit, "@x{0,0.[000]}"], [metric, "@y{0,0.[00]}"]];
  figure.add_tools(new Bokeh.HoverTool({ renderers: [targets], tooltips, limit: 1 }));
  node.replaceChildren();
  await Bokeh.Plotting.show(figure, node);
  node.dataset.lines = String(lines.length);
}

const seen = new Set();
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !seen.has(target)) {
        seen.add(target);
        draw(target);
      }
    }
  },
  { rootMargin: "300px" },
);
const drawAgain = (nodes) => nodes.forEach((node) => seen.has(node) && draw(node));

/** Unfold what the address points at and everything around it. */
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target === null) return;
  target.hidden = false;
  for (let place = target; place !== null; place = place.parentElement) {
    if (place instanceof HTMLDetailsElement) place.open = true;
  }
  target.scrollIntoView();
}

const curves = document.querySelectorAll(".curve");
curves.forEach((node) => watcher.observe(node));
switches?.addEventListener("change", () => drawAgain(curves));
for (const list of document.querySelectorAll(".sentences")) {
  list.addEventListener("change", () => drawAgain(list.closest("article").querySelectorAll(".curve")));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAgain(curves));
document.getElementById("filter")?.addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const cell of document.querySelectorAll("details.cell")) {
    cell.hidden = !words.every((word) => cell.dataset.cell.toLowerCase().includes(word));
  }
});
addEventListener("hashchange", openTarget);
openTarget();
root.dataset.ready = "yes";
