// Theme, keyboard shortcuts, labelling without a reload, live updates. All pages are readable without it.
import { startCharts } from "./charts.js";
import { startGraph } from "./graph.js";
import { startLive } from "./live.js";

const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function startTheme() {
  const button = one("[data-theme-button]");
  const root = document.documentElement;
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const update = () => {
    button.classList.toggle("is-dark", isDark());
    button.title = isDark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", button.title);
  };
  button.hidden = false;
  update();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("opilio-theme", root.dataset.theme); } catch { /* storage is off: for this page only */ }
    update();
  });
}

const NOTE_MS = 9000;
const MAX_WAITS = 60;
let noteTimer = 0;

function notify(text) {
  const note = one("[data-note]");
  note.textContent = text;
  note.hidden = !text;
  note.classList.add("toast"); // with scripts a message does not move the page
  clearTimeout(noteTimer);
  noteTimer = setTimeout(() => { note.hidden = true; }, NOTE_MS);
}

function startNotes() {
  const note = one("[data-note]");
  if (!note.hidden) notify(note.textContent);
  note.addEventListener("click", () => { note.hidden = true; });
}

function startFilters() {
  for (const form of all("[data-auto]")) {
    one("[data-auto-button]", form).hidden = true;
    form.addEventListener("change", () => form.requestSubmit());
  }
}

async function send(form, button) {
  const body = new URLSearchParams(new FormData(form));
  if (button?.name) body.set(button.name, button.value);
  const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
  const result = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  notify(result.message ?? result.error ?? "");
  return answer.ok ? result : null;
}

function showVerdict(row, verdict) {
  const chip = one("[data-verdict]", row);
  if (chip) {
    chip.className = `chip ${verdict.relevant ? "yes" : "no"}`;
    chip.textContent = verdict.relevant ? "relevant" : "not relevant";
  }
  const reason = one("[data-reason]", row);
  if (reason && verdict.reason) reason.textContent = verdict.reason;
  const score = one("[data-score]", row);
  if (!score) return;
  score.removeAttribute("title");
  one(".fill", score)?.setAttribute("width", (verdict.score * 100).toFixed(1));
  one("span", score).textContent = verdict.score.toFixed(2);
}

let sending = Promise.resolve(); // labels are sent one after another

async function judge(event) {
  event.preventDefault();
  const form = event.target;
  const button = event.submitter;
  const row = form.closest("[data-row]");
  form.setAttribute("aria-busy", "true");
  // The next page of a review is selected before the answer: a second key must not label the same page again.
  if (one("[data-estimate]") && button.value !== "undo" && row?.classList.contains("chosen")) step(1);
  try {
    sending = sending.catch(() => null).then(() => send(form, button));
    const result = await sending;
    if (result) {
      if (row && result.verdicts?.length === 1) showVerdict(row, result.verdicts[0]);
      const taken = button.value === "undo";
      for (const other of all("button", form)) {
        if (other.value === "undo") other.hidden = taken;
        else other.setAttribute("aria-pressed", String(other === button));
      }
      row?.setAttribute("data-judged", button.value);
      await afterReview(row);
    }
  } catch {
    notify("The server cannot be reached; nothing was changed.");
  }
  form.removeAttribute("aria-busy");
}

const MAX_ESTIMATES = 12; // rows; the first one stays

// One interval as a bar on a scale from 0 to 100 %.
function estimateRow(name, low, high) {
  const svg = (tag, values) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    return element;
  };
  const bar = svg("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" });
  bar.append(svg("rect", { class: "rail", width: 100, height: 6 }), svg("rect", { class: "fill", x: low, width: Math.max(high - low, 0.5), height: 6 }));
  const row = document.createElement("li");
  const label = document.createElement("span");
  label.textContent = `${name}: ${low.toFixed(1)} to ${high.toFixed(1)} %`;
  row.append(bar, label);
  return row;
}

// On the review page a label updates the estimate.
async function afterReview(row) {
  const box = one("[data-estimate]");
  if (!box || !row) return;
  const { estimate } = await (await fetch(box.dataset.estimate)).json();
  const percent = (value) => (value * 100).toFixed(1);
  const before = one("[data-before]", box);
  before.textContent ||= `At the start: ${one("[data-low]", box).textContent} to ${one("[data-high]", box).textContent} %.`;
  const list = one("[data-estimates]", box);
  if (!list.children.length) list.append(estimateRow("start", Number(one("[data-low]", box).textContent), Number(one("[data-high]", box).textContent)));
  list.append(estimateRow(`label ${list.children.length}`, estimate.low * 100, estimate.high * 100));
  while (list.children.length > MAX_ESTIMATES) list.children[1].remove();
  list.hidden = false;
  one("[data-precision]", box).textContent = `${percent(estimate.precision)} %`;
  one("[data-low]", box).textContent = percent(estimate.low);
  one("[data-high]", box).textContent = percent(estimate.high);
}

// A tag is added or removed without a reload.
async function changeTags(event) {
  event.preventDefault();
  const form = event.target;
  const box = form.closest("[data-tags]");
  try {
    const result = await send(form, event.submitter);
    if (!result) return;
    const list = one(".tags", box);
    list.replaceChildren(...result.tags.map((tag) => {
      const row = document.createElement("li");
      row.append(one("template", box).content.cloneNode(true));
      const link = one("a", row);
      link.textContent = tag;
      link.href = `/search?${new URLSearchParams({ tag })}`;
      one("input[name=value]", row).value = tag;
      one(".unseen", row).textContent = `Remove tag ${tag}`;
      return row;
    }));
    const field = one(".add-tag input[name=value]", box);
    field.value = "";
    field.focus();
  } catch {
    notify("The server cannot be reached; nothing was changed.");
  }
}

function startForms() {
  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-judge]")) judge(event);
    else if (event.target.matches("[data-tag]")) changeTags(event);
    else if (event.target.matches("[data-quiet]")) {
      event.preventDefault();
      send(event.target, event.submitter).catch(() => notify("The server cannot be reached; nothing was changed."));
    } else if (event.target.matches("[data-sure]") && !confirm(event.target.dataset.sure)) event.preventDefault();
  });
}

// A trial shows its pages as they arrive. New rows are appended, so that a button under the pointer stays.
async function followTrial() {
  const root = one("[data-trial]");
  if (!root?.dataset.trial) return;
  await new Promise((resolve) => { setTimeout(resolve, 1000); });
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (answer?.ok) {
    const fresh = one("[data-trial]", new DOMParser().parseFromString(await answer.text(), "text/html"));
    one(".trial-state", root).replaceWith(one(".trial-state", fresh));
    root.dataset.trial = fresh.dataset.trial;
    const list = one(".review", root);
    if (!list) root.append(...all(".review", fresh));
    else {
      const known = new Set(all("[data-id]", list).map((row) => row.dataset.id));
      list.append(...all(".review [data-id]", fresh).filter((row) => !known.has(row.dataset.id)));
    }
  }
  followTrial();
}

// A search, or subtopics, before the pages are indexed: the results are shown as soon as there are some.
async function followIndex(tries = 0) {
  const field = one("#big-find");
  if (!one("[data-waiting]") || tries >= MAX_WAITS) return;
  await new Promise((resolve) => { setTimeout(resolve, 2000); });
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  const waits = !answer?.ok || one("[data-waiting]", new DOMParser().parseFromString(await answer.text(), "text/html"));
  if (waits || field && field.value !== field.defaultValue) followIndex(tries + 1);
  else location.reload();
}

function startMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
}

function rows() { return all("[data-row]"); }

function step(by) {
  const list = rows();
  const at = list.findIndex((row) => row.classList.contains("chosen"));
  const next = list[Math.min(list.length - 1, Math.max(0, at + by))];
  if (!next) return;
  list[at]?.classList.remove("chosen");
  next.classList.add("chosen");
  next.scrollIntoView({ block: "nearest" });
  (one("[data-open]", next) ?? one("a", next))?.focus({ preventScroll: true });
}

function chosen() { return one("[data-row].chosen") ?? (rows().length === 1 ? rows()[0] : null); }

const places = { c: "", p: "/pages", t: "/topic", h: "/hosts", q: "/queue", r: "/review", g: "/graph", e: "/events" };
let going = false;

function go(key) {
  const here = one(".sub-nav a")?.getAttribute("href");
  if (here && key in places) location.href = here + places[key];
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog[open]")) return;
  const key = event.key;
  if (going) { going = false; go(key); return; }
  if (key === "/") { event.preventDefault(); one("#big-find, #find")?.focus(); }
  else if (key === "?") one("[data-keys]").showModal();
  else if (key === "j") step(1);
  else if (key === "k") step(-1);
  else if (key === "g") { going = true; setTimeout(() => { going = false; }, 1500); }
  else if (key === "o" && chosen()) one("[data-open]", chosen())?.click();
  else if ((key === "+" || key === "-" || key === "u") && chosen()) one(`[data-judge] [data-key="${key}"]`, chosen())?.click();
}

startTheme();
startForms();
startNotes();
startFilters();
startMenus();
startCharts();
document.addEventListener("keydown", pressed);
startLive(one("[data-live]"));
startGraph(one("[data-graph]"));
followTrial();
followIndex();
if (one("[data-review]")) step(1);
