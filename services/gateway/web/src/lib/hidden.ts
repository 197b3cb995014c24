/** Piece is a text, or an invisible character in the form \u{202E}. */
export interface Piece {
  text: string;
  hidden: boolean;
}

// Controls but tab and newline, format characters (bidi, zero width, tags), separators, fillers that draw nothing, variation
// selectors, private use and lone surrogates.
const unseen =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFFA0\uFE00-\uFE0F\u{E0100}-\u{E01EF}\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000]/gu;

/** pieces splits a text at invisible characters. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(unseen)) {
    if (match[0] === "\n" || match[0] === "\t") continue;
    if (match.index > from) found.push({ text: text.slice(from, match.index), hidden: false });
    const code = match[0].codePointAt(0)!;
    found.push({ text: `\\u{${code.toString(16).toUpperCase().padStart(4, "0")}}`, hidden: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), hidden: false });
  return found;
}

export const hasHidden = (text: string) => pieces(text).some((piece) => piece.hidden);

/** plain returns a text with its invisible characters in the form \u{202E}. */
export const plain = (text: string) => pieces(text).map((piece) => piece.text).join("");

/** mixed reports whether a text has Latin letters and letters of other scripts that look like them. */
export const mixed = (text: string) => /\p{Script=Latin}/u.test(text) && /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Cherokee}\uFF21-\uFF5A]/u.test(text);
