// Runs before the first paint, so that the chosen theme does not flash. The default is the system theme.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("opilio-theme"); } catch { /* storage may be switched off */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
