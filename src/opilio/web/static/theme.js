// Runs before the page is drawn, so that a chosen theme does not flash. Without it the system's theme holds.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("opilio-theme"); } catch { /* storage may be switched off */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
