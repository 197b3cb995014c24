/** Drafts are unsent texts. They survive reloads and are removed when they are sent. */
const prefix = "kaged.draft.";

export const draft = {
  read: (key: string): string => localStorage.getItem(prefix + key) ?? "",
  write(key: string, text: string): void {
    try {
      text ? localStorage.setItem(prefix + key, text) : localStorage.removeItem(prefix + key);
    } catch {
      // The storage is full or forbidden: the text stays in the page only.
    }
  },
};
