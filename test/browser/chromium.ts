// Finds a Chromium on this machine and starts it without a screen.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { noteMissing } from "../support/missing.js";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin", "/snap/bin"];
const usualPlaces = [
  ...names.flatMap((name) => folders.map((folder) => join(folder, name))),
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/** The Chromium to use, or undefined where there is none. A path in CHROMIUM that leads nowhere is a mistake, not an absence. */
export function findChromium(): string | undefined {
  const named = process.env["CHROMIUM"];
  if (named === undefined || named === "") {
    const found = usualPlaces.find((path) => existsSync(path));
    if (found === undefined) noteMissing("Chromium", howToInstall);
    return found;
  }
  if (!existsSync(named)) throw new Error(`CHROMIUM names ${named}, which is not there`);
  return named;
}

/** What to do where there is none. */
export const howToInstall =
  "the browser tests were skipped: no Chromium was found. Install one (Debian: apt-get install chromium) or set CHROMIUM to its path";

/** Starts Chromium. */
export const startChromium = (path: string): Promise<Browser> =>
  chromium.launch({
    executablePath: path,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--enable-unsafe-webgpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
