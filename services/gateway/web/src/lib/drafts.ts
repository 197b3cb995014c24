/** Drafts are texts that are being written. They outlive reloads, and end when they are sent. */
const prefix = "kaged.draft.";

export const draft = {
  read: (key: string): string => localStorage.getItem(prefix + key) ?? "",
  write(key: string, text: string): void {
    try {
      text ? localStorage.setItem(prefix + key, text) : localStorage.removeItem(prefix + key);
    } catch {
      // The store is full or forbidden: the text stays in the page.
    }
  },
};
