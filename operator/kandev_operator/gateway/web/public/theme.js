// Loaded before anything is painted: a page in the chosen colours from its first moment.
try {
  const chosen = localStorage.getItem("kandev.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Nothing is kept here: the system's colours.
}
