// The graph of hosts: zoom and move, labels that never overlap, neighbours of the host under the pointer.

const CHARACTER = 8.2; // width of a letter and height of a line in CSS pixels, with a margin
const LINE = 16;
const MOST = 8; // largest zoom

function placeLabels(svg, view) {
  const scale = svg.clientWidth / view.w; // CSS pixels per unit
  const taken = []; // the largest hosts come first; a label may cover smaller ones
  const circles = [...svg.querySelectorAll("circle")].map((c) => [c, +c.getAttribute("cx"), +c.getAttribute("cy"), +c.getAttribute("r")]);
  svg.querySelectorAll("[data-labels] text").forEach((text, number) => {
    const { x, y, r } = text.dataset;
    const half = (CHARACTER * text.textContent.length) / 2 / scale;
    const bottom = y - r;
    // The label of a host near the left or right edge is moved inwards.
    const middle = Math.max(view.x + half, Math.min(view.x + view.w - half, +x));
    const box = [middle - half, bottom - LINE / scale, middle + half, bottom];
    const hits = (b) => box[0] <= b[2] && box[2] >= b[0] && box[1] <= b[3] && box[3] >= b[1];
    const shown = x >= view.x && x <= view.x + view.w;
    text.setAttribute("x", middle);
    const free = shown && !taken.some(hits) && !circles.some(([, cx, cy, cr], other) => other !== number && cr >= r && hits([cx - cr, cy - cr, cx + cr, cy + cr]));
    text.classList.toggle("crowded", !free);
    text.style.fontSize = `${13 / scale}px`;
    text.style.strokeWidth = `${3 / scale}px`;
    if (free) taken.push(box);
  });
}

export function startGraph(box) {
  if (!box) return;
  const svg = box.querySelector("svg.graph");
  const whole = { x: 0, y: 0, w: svg.viewBox.baseVal.width, h: svg.viewBox.baseVal.height };
  let view = { ...whole };
  let moved = 0;
  box.querySelector(".graph-tools").hidden = false;

  const show = () => {
    view.w = Math.min(whole.w, Math.max(whole.w / MOST, view.w));
    view.h = (view.w * whole.h) / whole.w;
    view.x = Math.min(whole.w - view.w, Math.max(0, view.x));
    view.y = Math.min(whole.h - view.h, Math.max(0, view.y));
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    svg.dataset.zoom = (whole.w / view.w).toFixed(2);
    placeLabels(svg, view);
  };
  const zoom = (factor, px = 0.5, py = 0.5) => {
    const w = Math.min(whole.w, Math.max(whole.w / MOST, view.w / factor));
    const h = (w * whole.h) / whole.w;
    view = { x: view.x + (view.w - w) * px, y: view.y + (view.h - h) * py, w, h };
    show();
  };

  box.addEventListener("click", (event) => {
    const how = event.target.closest("[data-zoom]")?.dataset.zoom;
    if (how === "in") zoom(1.5);
    else if (how === "out") zoom(1 / 1.5);
    else if (how) { view = { ...whole }; show(); }
    else if (moved > 4) event.preventDefault(); // a drag is not a click
  });
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const frame = svg.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, (event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height);
  }, { passive: false });

  const pointers = new Map();
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("pointerdown", (event) => { pointers.set(event.pointerId, event); moved = 0; });
  addEventListener("pointerup", (event) => pointers.delete(event.pointerId));
  addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const others = [...pointers.values()].filter((other) => other.pointerId !== event.pointerId);
    pointers.set(event.pointerId, event);
    const scale = svg.clientWidth / view.w;
    if (others.length) {
      const span = (e) => Math.hypot(e.clientX - others[0].clientX, e.clientY - others[0].clientY) || 1;
      zoom(span(event) / span(before));
      return;
    }
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    view.x -= (event.clientX - before.clientX) / scale;
    view.y -= (event.clientY - before.clientY) / scale;
    show();
  });

  const mark = (node) => {
    const near = new Set([node]);
    for (const line of svg.querySelectorAll("line")) {
      const joined = node !== null && (line.dataset.from === node || line.dataset.to === node);
      line.classList.toggle("near", joined);
      if (joined) near.add(line.dataset.from).add(line.dataset.to);
    }
    svg.classList.toggle("focused", node !== null);
    for (const link of svg.querySelectorAll("[data-node]")) link.classList.toggle("near", near.has(link.dataset.node));
    const link = node === null ? null : svg.querySelector(`[data-node="${node}"]`);
    box.querySelector("[data-graph-note]").textContent = link?.getAttribute("aria-label") ?? "Scroll or pinch to zoom, drag to move, click a host to open it.";
  };
  svg.addEventListener("pointerover", (event) => mark(event.target.closest("[data-node]")?.dataset.node ?? null));
  svg.addEventListener("pointerleave", () => mark(null));
  svg.addEventListener("focusin", (event) => mark(event.target.closest("[data-node]")?.dataset.node ?? null));
  new ResizeObserver(show).observe(svg);
}
