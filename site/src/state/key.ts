/** The API key of this tab: kept as long as the tab, told to the page's own server alone. */
import { signal } from "@preact/signals";

export const apiKey = signal(sessionStorage.getItem("insitu-key") ?? "");

export function setKey(key: string): void {
  apiKey.value = key;
  sessionStorage.setItem("insitu-key", key);
}
