import type { Routes } from "./types.gen.js";
import { SessionSocket, type SocketHandlers, type SocketOptions } from "./socket.js";
import { SessionStream, type StreamHandlers } from "./stream.js";
import { SystemSocket, type SystemHandlers } from "./system.js";

/** Route is "METHOD /path", as in the description of the API. */
export type Route = keyof Routes;
export type Params<R extends Route> = Routes[R]["params"];
export type Body<R extends Route> = Routes[R]["body"];
export type Answer<R extends Route> = Routes[R]["answer"];

/** PagedRoute is a route whose answers are pages. */
type PagedRoute = { [R in Route]: Answer<R> extends { items: unknown[]; next_cursor: string | null } ? R : never }[Route];
type Item<R extends PagedRoute> = Answer<R> extends { items: Array<infer T> } ? T : never;

export interface ClientOptions {
  /** The daemon's address, "" for the origin of the page. */
  baseUrl?: string;
  /** An API token; without it the browser's cookies are used. */
  token?: string;
  /** A replacement for the global fetch. */
  fetch?: typeof fetch;
  /** A replacement for the global WebSocket. */
  WebSocket?: typeof WebSocket;
  /** Called with each answer of the daemon, for its headers. */
  onAnswer?: (answer: Response) => void;
}

/** KagedError is a refusal: its code is stable, its message a sentence for a person. */
export class KagedError extends Error {
  constructor(
    message: string,
    /** A code of docs/reference/errors.md, or "unreachable" without an answer. */
    readonly code: string,
    /** The HTTP status, 0 without an answer. */
    readonly status: number,
    readonly details: Record<string, unknown> = {},
    readonly requestId = "",
    /** The whole body; some refusals have further fields. */
    readonly body: unknown = undefined,
  ) {
    super(message);
    this.name = "KagedError";
  }
}

interface CallOptions {
  signal?: AbortSignal;
  /** The expected version or hash, for If-Match. */
  ifMatch?: string;
}

/** Client calls the API of one daemon. */
export class Client {
  readonly baseUrl: string;
  private readonly fetching: typeof fetch;
  private csrf: Promise<string> | null = null;

  constructor(readonly options: ClientOptions = {}) {
    this.baseUrl = (options.baseUrl ?? "").replace(/\/+$/, "");
    this.fetching = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** call sends one request. params has the parameters of the path and of the query. It throws KagedError. */
  async call<R extends Route>(route: R, params?: Params<R>, body?: Body<R>, options: CallOptions = {}): Promise<Answer<R>> {
    const answer = await this.request(route, params as Record<string, unknown>, body, options);
    const text = await answer.text();
    const json = answer.headers.get("Content-Type")?.includes("json");
    return (json ? JSON.parse(text) : text) as Answer<R>;
  }

  /** items yields the items of all pages of a list. It requests each page when it is needed. */
  async *items<R extends PagedRoute>(route: R, params?: Params<R>, options: CallOptions = {}): AsyncGenerator<Item<R>> {
    let cursor: string | undefined;
    do {
      const page = await this.call(route, { limit: 200, ...params, ...(cursor ? { cursor } : {}) } as Params<R>, undefined, options);
      const { items, next_cursor } = page as unknown as { items: Array<Item<R>>; next_cursor: string | null };
      yield* items;
      cursor = next_cursor ?? undefined;
    } while (cursor);
  }

  /** socket receives a session's frames. It reconnects after interruptions. */
  socket(sessionId: string, handlers: SocketHandlers, options: SocketOptions = {}): SessionSocket {
    return new SessionSocket(this, sessionId, handlers, options);
  }

  /** stream receives a session's frames without holding the session. place is a position in its channels, such as output:0,events:0. */
  stream(sessionId: string, handlers: StreamHandlers, place = ""): SessionStream {
    return new SessionStream(this, sessionId, handlers, place);
  }

  /** events opens a stream of server-sent events. It throws KagedError. */
  events(sessionId: string, place: string, signal: AbortSignal): Promise<Response> {
    return this.request("GET /api/v1/sessions/{id}/stream", { id: sessionId }, undefined, { signal }, {
      Accept: "text/event-stream", ...(place ? { "Last-Event-ID": place } : {}),
    });
  }

  /** system receives the changes of the caller's sessions, projects, approvals and issues. */
  system(handlers: SystemHandlers): SystemSocket {
    return new SystemSocket(this, handlers);
  }

  /** csrfToken returns the CSRF token for changing requests, "" with an API token. */
  csrfToken(): Promise<string> {
    if (this.options.token) return Promise.resolve("");
    this.csrf ??= this.call("GET /api/v1/me").then((me) => me.csrf_token);
    this.csrf.catch(() => (this.csrf = null));
    return this.csrf;
  }

  /** forget drops the cached CSRF token, which changes with a new sign-in. */
  forget(): void {
    this.csrf = null;
  }

  private async request(
    route: Route, params: Record<string, unknown> | undefined, body: unknown, options: CallOptions, more: Record<string, string> = {},
  ): Promise<Response> {
    const [method, template] = route.split(" ") as [string, string];
    const url = this.baseUrl + fill(template, params ?? {});
    const changes = method !== "GET";
    for (let attempt = 0; ; attempt++) {
      const headers: Record<string, string> = { Accept: "application/json", ...more };
      if (this.options.token) headers["Authorization"] = `Bearer ${this.options.token}`;
      if (changes && !this.options.token) headers["X-Kaged-CSRF"] = await this.csrfToken();
      if (body !== undefined) headers["Content-Type"] = "application/json";
      if (options.ifMatch) headers["If-Match"] = options.ifMatch;
      let answer: Response;
      try {
        answer = await this.fetching(url, {
          method,
          headers,
          body: body === undefined ? null : JSON.stringify(body),
          signal: options.signal ?? null,
          credentials: "same-origin",
          redirect: "error",
        });
      } catch (cause) {
        if (options.signal?.aborted) throw cause;
        throw new KagedError("kaged cannot be reached. It may be stopped, or the network is away.", "unreachable", 0);
      }
      this.options.onAnswer?.(answer);
      if (answer.ok) return answer;
      const refusal = await refusalOf(answer);
      const stale = changes && !this.options.token && refusal.status === 403 && attempt === 0;
      if (!stale) throw refusal;
      this.csrf = null; // the secret was rotated, or another sign-in has replaced the cookie
    }
  }
}

/** fill sets the parameters of a path; the remaining ones become the query. */
function fill(template: string, params: Record<string, unknown>): string {
  const rest = new URLSearchParams();
  let path = template;
  for (const [key, value] of Object.entries(params)) {
    if (value === undefined || value === null) continue;
    const text = String(value);
    if (!path.includes(`{${key}}`)) {
      rest.set(key, text);
      continue;
    }
    // The name of a prompt and the path of a file have slashes; other values are one segment.
    const parts = /\/(prompts\/\{name\}|files\/\{path\})$/.test(template) && template.endsWith(`{${key}}`) ? text.split("/") : [text];
    if (parts.some((part) => part === "" || part === "." || part === "..")) {
      throw new KagedError(`${JSON.stringify(text)} cannot be ${key}.`, "validation_failed", 0);
    }
    path = path.replace(`{${key}}`, () => parts.map(encodeURIComponent).join("/"));
  }
  const query = rest.toString();
  return query ? `${path}?${query}` : path;
}

async function refusalOf(answer: Response): Promise<KagedError> {
  const text = await answer.text().catch(() => "");
  try {
    const body = JSON.parse(text);
    const error = body.error;
    if (typeof error?.code === "string") {
      return new KagedError(error.message, error.code, answer.status, error.details ?? {}, error.request_id ?? body.request_id ?? "", body);
    }
    if (typeof error === "string") {
      return new KagedError(body.message ?? error, error, answer.status, {}, body.request_id ?? "", body);
    }
  } catch {
    // An error page of a proxy is not JSON.
  }
  return new KagedError(`The answer was ${answer.status} ${answer.statusText}.`, "internal", answer.status);
}
