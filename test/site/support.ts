// The page in Chromium, as the server ships it and as a static site: what the tests of both need.
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import { buildSite } from "../../scripts/build-site.mjs";
import { isolation, type RunningServer, startServer } from "../browser/server.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The folder of the embedded model. */
export const modelFolder = join(root, "models/embedded");

/** Where screenshots are kept: a folder that git ignores. */
const pictures = join(root, ".cache/screenshots");

/** Builds the static site, with the embedded model, and serves it on a free port. */
export async function serveSite(): Promise<RunningServer & { readonly folder: string }> {
  // A folder of its own: suites run side by side.
  const folder = buildSite(join(root, `.cache/site-${process.pid}`));
  const index = readFileSync(join(folder, "index.html"), "utf8");
  const css = /page\/[^"]+\.css/.exec(index)![0];
  const server = await startServer({
    headers: isolation,
    folders: { "/": folder },
    files: new Map([["/", index]]),
    types: { [`/${css}`]: "text/css", "/manifest": "application/manifest+json", "/icon": "image/svg+xml" },
  });
  const close = (): void => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { ...server, folder, close };
}

/** A page whose errors are collected, and which asks nobody but its own server. */
export async function openPage(
  browser: Browser,
  address: string,
  options: BrowserContextOptions = {},
): Promise<{ readonly page: Page; readonly problems: string[] }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => void (message.type() === "error" && problems.push(message.text())));
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(address)) problems.push(request.url());
  });
  return { page, problems };
}

export const ready = (page: Page): Promise<void> => page.locator(".dot.ready").waitFor();

/** Says something, and waits until the answer has ended. */
export async function ask(page: Page, text: string): Promise<void> {
  const before = await page.locator(".message.assistant").count();
  await page.locator("#say").fill(text);
  await page.locator("#say").press("Enter");
  await expect.poll(() => page.locator(".message.assistant").count()).toBe(before + 1);
  await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
}

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** What axe-core finds that is serious. */
export async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(readFileSync(axe, "utf8"));
  return page.evaluate(`axe.run().then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ": " + html.slice(0, 160) + " " + failureSummary)))`);
}

/** A phone, a tablet, a desk, and 4K. */
const screens = [
  [360, 740],
  [768, 800],
  [1280, 800],
  [3840, 2160],
] as const;

/** Keeps a picture of the page on every screen, light and dark, where axe-core finds nothing serious. */
export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(pictures, { recursive: true });
  const corner = page.locator(".debug");
  await corner.evaluateAll((all) => all.forEach((each) => ((each as HTMLElement).style.visibility = "hidden")));
  for (const colorScheme of ["light", "dark"] as const)
    for (const [width, height] of screens) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height });
      // Two frames, in which what follows the size and the scheme is drawn.
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      expect(await page.evaluate("document.documentElement.scrollWidth"), `${name} ${width}`).toBeLessThanOrEqual(
        width,
      );
      await page.screenshot({ path: join(pictures, `${name}-${width}-${colorScheme}.png`) });
      if (width === 360 || width === 1280)
        expect(await seriousFaults(page), `${name} ${width} ${colorScheme}`).toEqual([]);
    }
  await corner.evaluateAll((all) => all.forEach((each) => ((each as HTMLElement).style.visibility = "")));
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize({ width: 1280, height: 800 });
}

/**
 * The longest task of the page's own thread while something happens: milliseconds that it computed. Turns of other processes on a machine that is busy
 * are not the page's.
 */
export async function longestTask(browser: Browser, during: () => Promise<void>): Promise<number> {
  interface TraceEvent {
    readonly name: string;
    readonly ph: string;
    readonly pid: number;
    readonly tid: number;
    readonly tdur?: number;
    readonly args: { readonly name?: string };
  }
  const session = await browser.newBrowserCDPSession();
  const events: TraceEvent[] = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...(value as unknown[] as TraceEvent[])));
  await session.send("Tracing.start", { transferMode: "ReportEvents", categories: "-*,toplevel" } as object);
  await during();
  const complete = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.end");
  await complete;
  await session.detach();
  const key = ({ pid, tid }: TraceEvent): string => `${pid}:${tid}`;
  const isMain = ({ ph, name, args }: TraceEvent): boolean =>
    ph === "M" && name === "thread_name" && args.name === "CrRendererMain";
  const main = new Set(events.filter(isMain).map(key));
  const tasks = events.filter((event) => event.ph === "X" && event.name.endsWith("RunTask") && main.has(key(event)));
  expect(tasks.length).toBeGreaterThan(20);
  return Math.max(...tasks.map(({ tdur = 0 }) => tdur / 1000));
}

/** Seconds of processor time that the processes of this test's browsers took so far; 0 where the system does not tell. */
export function processorTime(): number {
  if (process.platform !== "linux") return 0;
  const all = new Map<string, { readonly parent: string; readonly ticks: number }>();
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each)))
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8").split(") ").at(-1)!.split(" ");
      all.set(name, { parent: fields[1], ticks: Number(fields[11]) + Number(fields[12]) });
    } catch {
      // It ended while the list was read.
    }
  let ticks = 0;
  for (const [name, own] of all) {
    let above: string | undefined = own.parent;
    while (above !== undefined && above !== String(process.pid)) above = all.get(above)?.parent;
    if (above !== undefined && name !== String(process.pid)) ticks += own.ticks;
  }
  return ticks / 100;
}

/** Bytes of files as gzip sends them. */
export const gzipBytes = (folder: string, paths: Iterable<string>): number =>
  [...paths].reduce((sum, path) => sum + gzipSync(readFileSync(join(folder, path))).length, 0);

/** A script and all that it imports before it runs, by their paths. */
export function importedBy(folder: string, path: string, seen: Set<string> = new Set()): Set<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const [, name] of readFileSync(join(folder, path), "utf8").matchAll(/(?:from|import)"\.\/([^"]+)"/g))
    importedBy(folder, `${path.slice(0, path.lastIndexOf("/"))}/${name}`, seen);
  return seen;
}
