import { tokens, type Token } from "./highlight";

/** The interval between two highlightings of growing code, in milliseconds. */
const pause = 300;

/** CodeBlock is the element of a piece of code, which is highlighted once its language is loaded. */
export class CodeBlock {
  private readonly inner = document.createElement("code");
  /** The code that is highlighted, and the text after it. */
  private known = "";
  private readonly rest = document.createTextNode("");
  private code = "";
  private language = "";
  private asked = -Infinity;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(label: string, readonly element: HTMLElement = document.createElement("pre")) {
    this.element.className = "code";
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", label);
    this.element.append(this.inner);
    this.inner.append(this.rest);
  }

  /** show shows the code, highlighted as far as it continues the highlighted code. */
  show(code: string, language: string): void {
    if (code === this.code && language === this.language) return;
    if (!code.startsWith(this.known) || language !== this.language) this.take("", []);
    this.code = code;
    this.language = language;
    this.rest.data = code.slice(this.known.length);
    if (!language || this.timer !== undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.asked = performance.now();
      const now = this.code;
      tokens(now, language).then((parts) => {
        if (this.code.startsWith(now) && this.language === language) this.take(now, parts);
      }, () => {});
    }, Math.max(0, this.asked + pause - performance.now()));
  }

  private take(known: string, parts: Token[]): void {
    this.known = known;
    this.rest.data = this.code.slice(known.length);
    this.inner.replaceChildren(...parts.map(({ text, scope }) => {
      if (!scope) return text;
      const span = document.createElement("span");
      span.className = `hl-${scope}`;
      span.textContent = text;
      return span;
    }), this.rest);
  }

  close(): void {
    clearTimeout(this.timer);
  }
}
