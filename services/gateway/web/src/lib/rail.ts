// The console's rail, which the page brings as markup (scripts/rail.ts) and App.svelte draws.

/** The outlines of the icons. */
export const icons: Record<string, string> = {
  brand: "M5 4v16M10 4v16M19 4v16M3 12h12m-3-3 3 3-3 3", inbox: "M4 13 6 5h12l2 8v6H4zM4 13h5l1 2h4l1-2h5", folder: "M3 6h6l2 2h10v11H3z",
  cpu: "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4", list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  gear: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6M12 3v3M12 18v3M3 12h3M18 12h3M5.6 5.6l2.2 2.2M16.2 16.2l2.2 2.2M5.6 18.4l2.2-2.2M16.2 7.8l2.2-2.2",
  search: "M11 5a6 6 0 1 0 0 12 6 6 0 0 0 0-12M20 20l-4.5-4.5",
};

/** The sections of the console, with the key that leads there after g. */
export const links = [
  { path: "/", name: "Inbox", icon: "inbox", key: "i" },
  { path: "/projects", name: "Projects", icon: "folder", key: "p" },
  { path: "/processes", name: "Processes", icon: "cpu", key: "r" },
  { path: "/audit", name: "Audit", icon: "list", key: "a" },
  { path: "/settings", name: "Settings", icon: "gear", key: "s" },
];
