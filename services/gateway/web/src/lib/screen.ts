import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Emulator } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

/** Screen shows the output of a process and reports typed input. */
export interface Screen {
  /** Shows bytes. The emulator does not reply to queries in a replay, because they were answered before. */
  write(data: Uint8Array, old: boolean): void;
  /** Whether typed input is accepted. */
  typing(yes: boolean): void;
  reset(): void;
  fit(): { cols: number; rows: number };
  close(): void;
}

const nonce = document.querySelector<HTMLMetaElement>('meta[name="kaged-style"]')?.content ?? "";

/** styled runs a function that creates style sheets, and gives them the nonce of the page's policy. */
function styled<T>(make: () => T): T {
  const create = document.createElement;
  document.createElement = function (this: Document, name: string, options?: ElementCreationOptions) {
    const made = create.call(document, name, options);
    if (name.toLowerCase() === "style") made.nonce = nonce;
    return made;
  } as typeof document.createElement;
  try {
    return make();
  } finally {
    document.createElement = create;
  }
}

/** open creates a screen in an element. Titles and links from a program are ignored. */
export function open(box: HTMLElement, onkeys: (keys: string) => void): Screen {
  const colour = (name: string) => getComputedStyle(box).getPropertyValue(name).trim();
  const style = getComputedStyle(box);
  const emulator = new Emulator({
    disableStdin: true, screenReaderMode: true, scrollback: 5000, fontSize: 13, fontFamily: colour("--mono"), cursorBlink: false,
    theme: { background: style.backgroundColor, foreground: style.color, cursor: style.color },
    linkHandler: { activate: () => {}, allowNonHttpProtocols: false },
  });
  const fitting = new FitAddon();
  emulator.loadAddon(fitting);
  styled(() => emulator.open(box));
  let old = 0;
  emulator.onData((keys) => { if (old === 0) onkeys(keys); });
  // Shift Tab leaves the terminal. The console's shortcuts with Ctrl or Meta work only outside of it.
  emulator.attachCustomKeyEventHandler((event) => !(event.key === "Tab" && event.shiftKey));
  return {
    write(data, isOld) {
      if (!isOld) return emulator.write(data);
      old++;
      emulator.write(data, () => old--);
    },
    typing(yes) {
      emulator.options.disableStdin = !yes;
      if (yes) emulator.focus();
    },
    reset: () => emulator.reset(),
    fit() {
      styled(() => fitting.fit());
      return { cols: emulator.cols, rows: emulator.rows };
    },
    close: () => emulator.dispose(),
  };
}
