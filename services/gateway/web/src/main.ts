import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import { inbox } from "./lib/inbox.svelte";
import { viewsMounted } from "./lib/marks";
import { openEarly } from "./lib/session.svelte";
import { theme } from "./lib/theme.svelte";

theme.apply();
openEarly(location.pathname);
inbox.start();

/** The longest wait for the first paint, in milliseconds. A hidden page is not painted. */
const longest = 1000;

let begun = false;
function begin(): void {
  if (begun) return;
  begun = true;
  const target = document.getElementById("app")!;
  target.replaceChildren();
  mount(App, { target });
  viewsMounted();
}

// The rail that the page brings is painted first; a message that is posted in an animation frame arrives after the paint.
requestAnimationFrame(() => {
  const painted = new MessageChannel();
  painted.port1.onmessage = begin;
  painted.port2.postMessage(0);
});
setTimeout(begin, document.hidden ? 0 : longest);
