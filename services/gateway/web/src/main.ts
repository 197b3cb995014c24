import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import { openEarly } from "./lib/session.svelte";
import { theme } from "./lib/theme.svelte";

theme.apply();
openEarly(location.pathname);
mount(App, { target: document.getElementById("app")! });
