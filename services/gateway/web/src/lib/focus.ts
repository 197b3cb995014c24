/** land moves a lost keyboard focus to the next question, the composer, or the view. */
export function land(): void {
  if (document.activeElement && document.activeElement !== document.body) return;
  for (const place of ["#main .ask", "#main .composer textarea", "#main"]) {
    const found = document.querySelector<HTMLElement>(place);
    if (!found) continue;
    found.focus({ preventScroll: true });
    return;
  }
}

/** lands is an attachment: if its element is removed while it has the keyboard focus, it calls land. */
export function lands(node: HTMLElement): () => void {
  let inside = false;
  const enter = () => (inside = true);
  const leave = (event: FocusEvent) => {
    if (event.relatedTarget) inside = node.contains(event.relatedTarget as Node);
  };
  node.addEventListener("focusin", enter);
  node.addEventListener("focusout", leave);
  return () => {
    if (inside) queueMicrotask(land);
  };
}
