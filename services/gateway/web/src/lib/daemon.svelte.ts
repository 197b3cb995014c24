/** Daemon is the state of the daemon, from the headers of its answers. */
class Daemon {
  /** The daemon's version. changed is true if the page was loaded from a different version or console. */
  version = $state("");
  changed = $state(false);
  /** Whether the last request was answered. */
  reachable = $state(true);
  signedOut = $state(false);
  /** Whether this page was signed in before. */
  wasIn = $state(false);
  warnings = $state.raw<string[]>([]);
  private first = "";
  private readonly build = document.querySelector<HTMLMetaElement>('meta[name="kaged-console"]')?.content ?? "";
  readonly signIn = document.querySelector<HTMLMetaElement>('meta[name="kaged-sign-in"]')?.content ?? "";

  answered(answer: Response): void {
    this.reachable = true;
    if (answer.status === 401) this.signedOut = true;
    else if (answer.ok) {
      this.signedOut = false;
      this.wasIn = true;
    }
    const version = answer.headers.get("X-Kaged-Daemon-Version") ?? "";
    const build = answer.headers.get("X-Kaged-Console") ?? this.build;
    this.first ||= version;
    if (version) this.version = version;
    if ((version && version !== this.first) || build !== this.build) this.changed = true;
    const warnings = (answer.headers.get("X-Kaged-Warning") ?? "").split(", ").filter(Boolean);
    if (warnings.join() !== this.warnings.join()) this.warnings = warnings;
  }
}

export const daemon = new Daemon();
