import { icons, links } from "../src/lib/rail";

const icon = (name: string) => `<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="${icons[name]}"></path></svg>`;

/** railMarkup returns the rail as markup of the page, so that it is painted before the scripts run. App.svelte draws the same rail. */
export const railMarkup = () => `<div class="frame"><nav class="rail" aria-label="Console"><a class="brand" href="/" aria-label="kaged, to the inbox">${icon("brand")}</a>`
  + links.map((link) => `<a class="rail-link" href="${link.path}">${icon(link.icon)}<span>${link.name}</span></a>`).join("")
  + `<button class="rail-link">${icon("search")}<span>Search</span></button></nav><div class="stage"></div></div>`;
