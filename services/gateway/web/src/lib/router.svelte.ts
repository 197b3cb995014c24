/** Router holds the URL, which has the state of a view. */
class Router {
  path = $state(location.pathname);
  query = $state.raw(new URLSearchParams(location.search));
  segments = $derived(this.path.split("/").filter(Boolean).map(decode));

  constructor() {
    addEventListener("popstate", () => this.read());
    document.addEventListener("click", (event) => this.follow(event));
  }

  private read(): void {
    this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
  }

  go(to: string, replace = false): void {
    const url = new URL(to, location.origin);
    if (url.pathname + url.search === location.pathname + location.search) return;
    history[replace ? "replaceState" : "pushState"](null, "", url.pathname + url.search);
    const moved = url.pathname !== this.path;
    this.read();
    if (moved) {
      scrollTo(0, 0);
      requestAnimationFrame(() => document.getElementById("main")?.focus({ preventScroll: true }));
    }
  }

  /** set changes parameters of the query; empty ones are left out. */
  set(values: Record<string, string | null>, replace = true): void {
    const query = new URLSearchParams(this.query);
    for (const [key, value] of Object.entries(values)) value ? query.set(key, value) : query.delete(key);
    const text = query.toString();
    this.go(this.path + (text ? `?${text}` : ""), replace);
  }

  /** follow handles clicks on links within the console. */
  private follow(event: MouseEvent): void {
    const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.target || link.hasAttribute("download") || link.origin !== location.origin || !ours(link.pathname)) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}

const ours = (path: string) => !/^\/(api|docs|static|launch|healthz|readyz)(\/|$)/.test(path);

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export const router = new Router();

/** to returns a path of encoded segments. */
export const to = (...segments: Array<string | number>) => "/" + segments.map((s) => encodeURIComponent(String(s))).join("/");
