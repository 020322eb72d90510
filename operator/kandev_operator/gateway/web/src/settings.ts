// What a person chose on this machine, and the words they have not sent yet. A browser that keeps
// nothing (private windows, full disks) is no error: then it lasts as long as the page.

import { effect, type Signal, signal } from "@preact/signals";

const fallback = new Map<string, string>();

export function remembered(key: string): string {
  try {
    return localStorage.getItem(`kandev.${key}`) ?? "";
  } catch {
    return fallback.get(key) ?? "";
  }
}

export function remember(key: string, value: string): void {
  try {
    if (value === "") localStorage.removeItem(`kandev.${key}`);
    else localStorage.setItem(`kandev.${key}`, value);
  } catch {
    fallback.set(key, value);
  }
}

/** A signal that is kept under a key. */
export function kept(key: string): Signal<string> {
  const value = signal(remembered(key));
  effect(() => remember(key, value.value));
  return value;
}

/** `auto` (the system's), `light` or `dark`. */
export const theme = kept("theme");
/** `yes`: sessions with policy OnRequest are resumed by their open page. */
export const autoResume = kept("auto-resume");

export function applyTheme(): void {
  const root = document.documentElement;
  if (theme.value === "light" || theme.value === "dark") root.dataset["theme"] = theme.value;
  else delete root.dataset["theme"];
}
