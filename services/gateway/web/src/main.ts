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

// The page brings its rail, which is painted if the browser comes to it before this script.
const target = document.getElementById("app")!;
target.replaceChildren();
mount(App, { target });
viewsMounted();
