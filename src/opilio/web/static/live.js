// Updates the crawl page from one stream of server-sent events.
import { restoreHover } from "./charts.js";

const SPOKEN_EVERY_MS = 5000; // announcements must not come faster than a screen reader reads
const LOG_LINES = 500;

function put(root, part, html) {
  const place = root.querySelector(`[data-part="${part}"]`);
  if (!place || place.contains(document.activeElement) && part === "controls" && place.matches(":focus-within:has(input:focus)")) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.value : null;
  const known = new Set([...place.querySelectorAll(".stream [data-id]")].map((row) => row.dataset.id));
  place.innerHTML = html; // rendered by the server's templates, which escape everything
  if (known.size) for (const row of place.querySelectorAll(".stream [data-id]")) row.classList.toggle("fresh", !known.has(row.dataset.id));
  if (focused) place.querySelector("button")?.focus({ preventScroll: true });
}

function speak(root, status, memory) {
  const now = Date.now();
  if (now - memory.spoken < SPOKEN_EVERY_MS && status.state === memory.state) return;
  memory.spoken = now;
  memory.state = status.state;
  root.querySelector("[data-spoken]").textContent =
    `${status.state}: ${status.pages} pages, ${status.relevant} relevant, harvest ${Math.round(status.harvest_now * 100)} % now`;
}

function log(root, event) {
  const list = root.querySelector("[data-log]");
  if (!list || list.querySelector(`[data-id="${event.id}"]`)) return;
  list.querySelector(".empty")?.remove();
  const line = document.createElement("li");
  line.className = `level-${event.level}`;
  line.dataset.id = event.id;
  const time = document.createElement("time");
  time.title = `${new Date(event.at * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  time.textContent = time.title.slice(11, 19);
  const text = document.createElement("span");
  text.dir = "auto";
  text.textContent = event.text.slice(0, 240);
  line.append(time, " ", text);
  list.prepend(line);
  while (list.children.length > LOG_LINES) list.lastElementChild.remove();
}

export function startLive(root) {
  if (!root) return;
  const memory = { spoken: 0, state: "" };
  const stream = new EventSource(`/c/${root.dataset.live}/live?parts=1&after=${root.dataset.after ?? ""}`);
  stream.addEventListener("status", (message) => speak(root, JSON.parse(message.data), memory));
  stream.addEventListener("parts", (message) => {
    for (const [part, html] of Object.entries(JSON.parse(message.data))) put(root, part, html);
    restoreHover();
    root.dataset.updates = String(Number(root.dataset.updates ?? 0) + 1);
  });
  stream.addEventListener("event", (message) => log(root, JSON.parse(message.data)));
  addEventListener("pagehide", () => stream.close());
}
