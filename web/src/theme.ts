// The colours of the console: those of the system, unless somebody has chosen others for this
// browser.

const key = "posthaste.theme";

export const themes = ["system", "light", "dark"] as const;

export type Theme = (typeof themes)[number];

export function theme(): Theme {
  return themes.find((one) => one === localStorage.getItem(key)) ?? "system";
}

export function showTheme(): void {
  document.documentElement.dataset["theme"] = theme();
}

export function chooseTheme(chosen: Theme): void {
  if (chosen === "system") {
    localStorage.removeItem(key);
  } else {
    localStorage.setItem(key, chosen);
  }
  showTheme();
}
