/** Piece is text, or a character that eyes do not see, in the form \u{202E}. */
export interface Piece {
  text: string;
  hidden: boolean;
}

// Controls but tab and newline, format characters (bidi, zero width, tags), separators, fillers that draw nothing, variation
// selectors, private use and lone surrogates.
const unseen =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFFA0\uFE00-\uFE0F\u{E0100}-\u{E01EF}\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000]/gu;

/** pieces parts a text at characters that are not seen. */
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

/** plain is a text in one string, with what is not seen written out. */
export const plain = (text: string) => pieces(text).map((piece) => piece.text).join("");

/** mixed reports whether a text has Latin letters beside ones that look like them. */
export const mixed = (text: string) => /\p{Script=Latin}/u.test(text) && /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Cherokee}\uFF21-\uFF5A]/u.test(text);
