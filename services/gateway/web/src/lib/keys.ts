/** The key code of a key that ends a composed character in Safari, where isComposing is false by then. */
const composing = 229;

/**
 * sends reports whether a key sends the text that is being written: Enter, unless it is part of a composed character or
 * asks for a new line with Shift. On a screen keyboard, which has no Shift Enter, only Ctrl or Meta Enter sends.
 */
export function sends(event: KeyboardEvent): boolean {
  if (event.key !== "Enter" || event.isComposing || event.keyCode === composing || event.shiftKey || event.altKey) return false;
  return event.ctrlKey || event.metaKey || !matchMedia("(pointer: coarse)").matches;
}
