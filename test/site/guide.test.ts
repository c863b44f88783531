// The guide in Chromium: every page opens without an error, search finds, code is copied, links lead somewhere, and nothing is asked of another host. The
// tests open a sample of the pages and the soak all of them, with pictures in .cache/screenshots.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildGuide } from "../../scripts/guide-site.mjs";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";
import { type RunningServer, startServer } from "../browser/server.js";
import { soak } from "../support/soak.js";
import { openPage, picture, seriousFaults } from "./support.js";

const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);

const folder = mkdtempSync(join(tmpdir(), "insitu-guide-"));
const { pages } = buildGuide(join(folder, "guide"));
afterAll(() => rmSync(folder, { recursive: true }));

const htmlOf = (place: string): string => readFileSync(join(folder, "guide", place), "utf8");

test("pages come in the order of docs/README.md, each with its neighbours", () => {
  expect(pages.length).toBeGreaterThan(35);
  expect(pages.slice(0, 4)).toEqual([
    "README.md",
    "docs/getting-started.md",
    "docs/choosing-a-model.md",
    "docs/models.md",
  ]);
  const page = htmlOf("docs/choosing-a-model.html");
  expect(page).toMatch(/rel="prev" href="getting-started.html"/);
  expect(page).toMatch(/rel="next" href="models.html"/);
  expect(page).toMatch(/href="choosing-a-model.html" aria-current="page"/);
});

test("README's links are the same on the site", () => {
  const page = htmlOf("index.html");
  for (const link of ["docs/getting-started.html", "docs/structured-output.html#tool-calls", "docs/serve.html"])
    expect(page).toContain(`href="${link}"`);
  expect(page).not.toMatch(/href="[^":]*\.md[#"]/);
});

describe.skipIf(chromium === undefined)("in Chromium", () => {
  let browser: Browser;
  let server: RunningServer;
  beforeAll(async () => {
    browser = await startChromium(chromium!);
    server = await startServer({
      headers: {},
      folders: { "/guide/": join(folder, "guide") },
      files: new Map([["/icon.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"]]),
    });
  });
  afterAll(async () => {
    await browser?.close();
    server?.close();
  });

  test("search finds, code is copied, light turns dark, the list opens where it is narrow", async () => {
    const { page, problems } = await openPage(browser, server.base, {
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await page.goto(`${server.base}/guide/index.html`);
    await page.keyboard.press("/");
    await page.locator("#find").fill("prefix cache");
    await page.locator("#found a").first().waitFor();
    expect((await page.locator("#found a").allInnerTexts()).join("\n")).toMatch(/Serving|Paged cache|Glossary/);
    await page.locator("#find").fill("generateObject");
    await expect.poll(() => page.locator("#found a").count()).toBeGreaterThan(0);
    // Words of a section lead to it, behind shell programs whose comments look like headings too.
    await page.locator("#find").fill("X-Forwarded-Host");
    await expect.poll(() => page.locator("#found a").first().getAttribute("href")).toContain("serve.html#running-it");
    await page.locator("#find").fill("getting started");
    await expect.poll(() => page.locator("#found a").first().innerText()).toContain("Getting started");
    await page.locator("#find").press("Enter");
    await page.waitForURL(/docs\/getting-started\.html/);
    expect(await page.locator("h1").innerText()).toBe("Getting started");

    const block = page.locator("figure.code").first();
    await block.getByRole("button", { name: "Copy" }).click();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(await block.locator("code").textContent());
    const paper = (): Promise<unknown> => page.evaluate("getComputedStyle(document.body).backgroundColor");
    const before = await paper();
    await page.getByRole("button", { name: "Light or dark" }).click();
    expect(await paper()).not.toBe(before);
    await page.reload();
    expect(await paper()).not.toBe(before);
    await page.setViewportSize({ width: 360, height: 740 });
    await page.getByRole("button", { name: "Pages" }).click();
    await page.getByRole("link", { name: "Glossary" }).click();
    await page.waitForURL(/docs\/glossary\.html/);
    expect(await seriousFaults(page)).toEqual([]);
    expect(problems).toEqual([]);
  });

  const sampled = pages.filter((path, at) => path.endsWith(".md") && (soak || at % 12 === 0));
  test.each(sampled)("%s opens, its links lead somewhere, and it fits a phone", async (path) => {
    const { page, problems } = await openPage(browser, server.base, { viewport: { width: 360, height: 740 } });
    await page.goto(`${server.base}/guide/${path === "README.md" ? "index.html" : path.replace(/\.md$/, ".html")}`);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
    const hrefs = (await page.evaluate(
      "[...document.querySelectorAll('article a, .turns a')].map(({ href }) => href)",
    )) as string[];
    const own = new Set(hrefs.flatMap((href) => (href.startsWith(server.base) ? [href.split("#")[0]] : [])));
    for (const href of own) expect((await page.request.get(href)).status(), `${path}: ${href}`).toBe(200);
    expect(
      await page.evaluate("[...document.images].filter((each) => each.complete && each.naturalWidth === 0).length"),
    ).toBe(0);
    expect(problems).toEqual([]);
    if (soak && /^README|^docs\/(README|getting-started|serve|api|performance|in-place)\.md/.test(path))
      await picture(page, `guide-${path.replaceAll("/", "-").replace(".md", "")}`);
    await page.context().close();
  });

  test("it searches from files, without a server", async () => {
    const page = await (await browser.newContext()).newPage();
    await page.goto(pathToFileURL(join(folder, "guide/docs/faq.html")).href);
    await page.locator("#find").fill("docker");
    await page.locator("#found a").first().waitFor();
    expect(await page.locator("#found a").first().getAttribute("href")).toMatch(/^\.\.\/.*html#/);
  });
});
