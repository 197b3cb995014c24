/** Theme follows the system unless the operator chooses another one. */
class Theme {
  choice = $state(localStorage.getItem("kaged.theme") ?? "system");
  shortcuts = $state(localStorage.getItem("kaged.shortcuts") !== "off");

  choose(choice: string): void {
    this.choice = choice;
    localStorage.setItem("kaged.theme", choice);
    this.apply();
  }
  useShortcuts(on: boolean): void {
    this.shortcuts = on;
    localStorage.setItem("kaged.shortcuts", on ? "on" : "off");
  }
  apply(): void {
    if (this.choice === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = this.choice;
  }
}

export const theme = new Theme();
