// Runs before the first paint, so that a chosen theme is there from the beginning. src/lib/theme.svelte.ts writes the choice.
try {
  const choice = localStorage.getItem("kaged.theme");
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
} catch {}
