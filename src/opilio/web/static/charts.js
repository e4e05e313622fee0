// Values of a chart under the pointer: shown in the legend, which needs no positioning of its own.

let last = null; // the pointer, so that a chart that was replaced shows its values again

function nearest(points, x) {
  return points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
}

function clear(box) {
  box.querySelector(".pointer")?.setAttribute("visibility", "hidden");
  for (const cell of box.querySelectorAll("[data-value], [data-at]")) cell.textContent = "";
}

function show(svg, clientX) {
  const box = svg.closest(".chart-box");
  const frame = svg.getBoundingClientRect();
  const x = ((clientX - frame.left) / frame.width) * svg.viewBox.baseVal.width;
  const [place, label, values] = nearest(JSON.parse(svg.dataset.hover), x);
  const line = box.querySelector(".pointer");
  line.setAttribute("x1", place);
  line.setAttribute("x2", place);
  line.setAttribute("visibility", "visible");
  for (const cell of box.querySelectorAll("[data-value]")) cell.textContent = values[cell.dataset.value] ?? "";
  box.querySelector("[data-at]").textContent = `at ${label}`;
}

export function restoreHover() {
  if (!last) return;
  const svg = document.elementFromPoint(last.x, last.y)?.closest("svg[data-hover]");
  if (svg) show(svg, last.x);
}

export function startCharts() {
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("svg[data-hover]");
    const before = last;
    last = svg ? { x: event.clientX, y: event.clientY } : null;
    if (svg) show(svg, event.clientX);
    else if (before) document.querySelectorAll(".chart-box").forEach(clear);
  });
}
