/** Span is terminal text in one style, with the console's CSS classes for colours 0 to 15. */
export interface Span {
  text: string;
  classes: string;
}

interface Look {
  fg: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const none = (): Look => ({ fg: null, bold: false, dim: false, italic: false, underline: false });

// CSI, OSC and other escape sequences, also unfinished ones, and single controls.
// eslint-disable-next-line no-control-regex
const escapes = /\x1b\[([0-9;:<=>?]*)[ -/]*([@-~]?)|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]?|\x9b[0-9;]*[@-~]?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/** spans splits the output of a program by style. Only colours and weight are kept; cursor movements and links are ignored. */
export function spans(output: string): Span[] {
  const text = overwrite(output);
  const found: Span[] = [];
  let look = none();
  let from = 0;
  const push = (piece: string) => {
    if (!piece) return;
    const classes = classesOf(look);
    const last = found[found.length - 1];
    if (last && last.classes === classes) last.text += piece;
    else found.push({ text: piece, classes });
  };
  for (const match of text.matchAll(escapes)) {
    push(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") look = change(look, match[1] ?? "");
  }
  push(text.slice(from));
  return found;
}

/** overwrite applies carriage returns to the preceding line. */
function overwrite(text: string): string {
  if (!text.includes("\r")) return text;
  return text.replaceAll("\r\n", "\n").split("\n").map((line) => line.slice(line.lastIndexOf("\r", line.length - 2) + 1).replace(/\r$/, "")).join("\n");
}

function change(before: Look, codes: string): Look {
  const look = { ...before };
  const list = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < list.length; i++) {
    const code = list[i]!;
    if (code === 0) Object.assign(look, none());
    else if (code === 1) look.bold = true;
    else if (code === 2) look.dim = true;
    else if (code === 3) look.italic = true;
    else if (code === 4) look.underline = true;
    else if (code === 22) look.bold = look.dim = false;
    else if (code === 23) look.italic = false;
    else if (code === 24) look.underline = false;
    else if (code >= 30 && code <= 37) look.fg = code - 30;
    else if (code >= 90 && code <= 97) look.fg = code - 82;
    else if (code === 39) look.fg = null;
    else if (code === 38 || code === 48) {
      if (list[i + 1] === 5) {
        if (code === 38) look.fg = (list[i + 2] ?? 16) < 16 ? list[i + 2]! : null;
        i += 2;
      } else if (list[i + 1] === 2) i += 4;
    }
  }
  return look;
}

function classesOf(look: Look): string {
  const names: string[] = [];
  if (look.fg !== null) names.push(`fg${look.fg}`);
  if (look.bold) names.push("bold");
  if (look.dim) names.push("dim");
  if (look.italic) names.push("italic");
  if (look.underline) names.push("underline");
  return names.join(" ");
}
