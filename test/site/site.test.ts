// The page in Chromium: over a scripted server, and as the static site with the embedded model. The tests run a sample of both; the soak all of it,
// on WASM and WebGPU, and keeps pictures in .cache/screenshots.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";
import { serveScript } from "../serve/scripted-engine.js";
import { ask, gzipBytes, importedBy, openPage, picture, ready, seriousFaults, serveSite } from "./support.js";
import { soak } from "../support/soak.js";

const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);

let browser: Browser;
let lm: CausalLM;
beforeAll(async () => {
  if (chromium === undefined) return;
  browser = await startChromium(chromium);
  // Answers of several lines: without a template the first line is all of one.
  const chatTemplate = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
  lm = await CausalLM.load(undefined, { threads: 1, chatTemplate });
});
afterAll(async () => {
  await browser?.close();
  await lm?.release();
});

const hostile = [
  "<script>window.broken = 1</script>",
  "<img src=x onerror='window.broken = 1'>",
  "[run](javascript:window.broken=1) and [a page](https://example.com/?q=1)",
  "![image](https://example.com/x.png)",
  "| a | b |\n|---|--:|\n| **1** | `2` |",
  "```js\nalert(1)\n```",
  "1. واحد\n2. اثنان",
].join("\n\n");

/** What costs a parser its stack, or its time. */
const bombs = `${">".repeat(60)} deep\n\n${"[".repeat(260)}\n\n<b>not bold</b>`;

/** An answer with all that Markdown has, long enough to be caught half way. */
const streamed = `## Rows that stay where they are

Each token gets **one row** in every layer. The row is written behind the last one:

1. the buffer has room for \`capacity\` rows,
2. the length is *data*, and counts the rows that are valid,
3. nothing is copied when it grows.

\`\`\`ts
// One more row, where it belongs.
function append(cache: Float32Array, row: Float32Array, length: number): number {
  cache.set(row, length * row.length);
  return length + 1;
}
\`\`\`

| runtime | bytes moved for 512 tokens |
|---|--:|
| copying | 1.5 GiB |
| in place | 0 B |

${"And so it goes on, row by row, until the context is full. ".repeat(60)}`;

describe.skipIf(chromium === undefined)("over a server", () => {
  test("talks, branches, keeps and finds conversations; hostile text stays text", async () => {
    let [answer, fails] = ["I am **well**, thank you.", false];
    const served = await serveScript(lm, () => ({ text: answer, ...(fails ? { fails: new Error("no more") } : {}) }));
    const { page, problems } = await openPage(browser, served.address);
    await page.goto(served.address);
    await ready(page);
    await ask(page, "How are you?");
    expect(await page.locator(".message.assistant strong").innerText()).toBe("well");
    expect(await page.locator("[data-took]").innerText()).toMatch(/\d+ tokens[^]*first after/);

    answer = hostile;
    await page.getByRole("button", { name: "Regenerate" }).click();
    await page.getByText("2/2").waitFor();
    await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
    expect(await page.evaluate("window.broken")).toBeUndefined();
    expect(await page.locator(".message script, .message img").count()).toBe(0);
    expect(await page.locator(".message a[href^=javascript]").count()).toBe(0);
    expect(await page.locator(".message td").count()).toBe(2);
    expect(await page.locator(".message ol[dir=rtl] li").count()).toBe(2);
    // Who pressed a button that went with its message goes on writing.
    expect(await page.evaluate("document.activeElement.id")).toBe("say");
    answer = bombs;
    await page.getByRole("button", { name: "Regenerate" }).click();
    await page.getByText("3/3").waitFor();
    await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
    expect(await page.locator(".message.assistant").innerText()).toContain("<b>not bold</b>");
    await page.getByRole("button", { name: "Branch before" }).click();
    await page.getByRole("button", { name: "Branch before" }).click();
    await page.getByText("I am well, thank you.").waitFor();
    console.log(`branch switched in ${await page.locator("[data-switched]").getAttribute("data-switched")} ms`);

    // Said otherwise: a branch of its own.
    answer = "Half of it";
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Edit your message").fill("And you?");
    await page.getByRole("button", { name: "Send as a new branch" }).click();
    await page.locator(".message.user").getByText("2/2").waitFor();
    await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);

    // What fails says so, and can be sent again.
    fails = true;
    await ask(page, "Fail, please");
    await page.getByRole("alert").getByText(/\S/).first().waitFor();
    fails = false;
    answer = "Here again.";
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByText("Here again.", { exact: true }).waitFor();

    // A setting that is wrong is shown where it is, and nothing is lost.
    await page.locator("#open-settings").click();
    await page.locator("#setting-temperature").fill("5");
    await page.locator("#say").fill("Kept");
    await page.locator("#say").press("Enter");
    await page.getByText("Temperature is a number from 0 to 2, got 5.").first().waitFor();
    expect(await page.locator("#say").inputValue()).toBe("Kept");
    await page.locator("#setting-temperature").fill("0.7");

    // A reload keeps all of it.
    await page.reload();
    await ready(page);
    await page.getByText("Here again.", { exact: true }).waitFor();
    await page.locator("#open-settings").click();
    expect(await page.locator("#setting-temperature").inputValue()).toBe("0.7");
    await page.locator("#search").fill("fail please");
    expect(await page.locator(".history li").count()).toBe(1);
    await page.locator("#search").fill("nothing of the kind");
    expect(await page.locator(".history li").count()).toBe(0);
    expect(await seriousFaults(page)).toEqual([]);
    expect(problems).toEqual([]);
    await page.context().close();
    await served.stop();
  });

  test.runIf(soak)("survives long texts, a server that goes away, two tabs, thirty turns", async () => {
    const long = "One sentence after the other. ".repeat(8);
    let answer = long;
    let served = await serveScript(lm, () => ({ text: answer }), { context: 8192 });
    const port = Number(new URL(served.address).port);
    const { page, problems } = await openPage(browser, served.address);
    await page.goto(`${served.address}/?debug`);
    await ready(page);
    await page.locator("#say").fill("word ".repeat(40_000));
    await page.locator("#say").press("Enter");
    await page
      .getByRole("alert")
      .getByText(/context/)
      .waitFor();
    await page.getByText("Show all").waitFor();
    await picture(page, "error");
    await page.getByRole("button", { name: "New", exact: true }).click();
    for (let turn = 0; turn < 30; turn++) await ask(page, `turn ${turn}`);
    expect(await page.locator(".message").count()).toBe(60);
    await picture(page, "long");
    await page.setViewportSize({ width: 360, height: 740 });
    await page.locator(".list-button").click();
    await picture(page, "list");
    await page.keyboard.press("Escape");
    answer = streamed;
    await page.getByRole("button", { name: "New", exact: true }).click();
    const made = (): number => served.engine.figures().madeTokens;
    let upTo = made() + 160;
    await page.locator("#say").fill("How does a cache grow in place?");
    await page.locator("#say").press("Enter");
    // Held in the middle of its table.
    for (; (await page.locator(".message.assistant td").count()) === 0; upTo += 8) {
      while (made() < upTo) await new Promise(setImmediate);
      served.engine.held = true;
      await page.waitForTimeout(300);
      if ((await page.locator(".message.assistant td").count()) === 0) served.engine.go();
    }
    await picture(page, "streaming");
    served.engine.go();
    await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
    await page.locator(".history .open").getByText("turn 0").click();
    const second = await page.context().newPage();
    await second.goto(served.address);
    await second.locator(".message").nth(59).waitFor();
    await second.close();

    served.engine.held = true;
    await page.locator("#say").fill("Go away");
    await page.locator("#say").press("Enter");
    await served.stop();
    await page
      .getByText(/server (went away|does not answer|ended)|was closed/)
      .first()
      .waitFor();
    await page.getByText("The server does not answer. This page asks again until it does.").waitFor();
    served = await serveScript(lm, () => ({ text: "Back again." }), { context: 8192 }, port);
    await ready(page);
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByText("Back again.", { exact: true }).waitFor();
    console.log(`the page says: ${await page.locator(".debug").innerText()}`);
    expect(problems.filter((text) => !/Failed to load|ERR_|40\d|503/.test(text))).toEqual([]);
    await page.context().close();
    await served.stop();
  });
});

describe.skipIf(chromium === undefined)("in the browser alone", () => {
  test("from the first visit to the first token; shows its cache; works without a network", async () => {
    const site = await serveSite();
    const { page, problems } = await openPage(browser, site.base);
    await page.goto(`${site.base}/?debug`);
    await ready(page);
    await page.getByText("has no chat template").waitFor();
    if (soak) await picture(page, "empty");
    await page.locator("#open-cache").click();
    await page.getByText(/All \d+ caches are written in place/).waitFor();
    expect(await page.locator("[data-verdict]").innerText()).toMatch(/in place: \S/);
    await page.getByRole("button", { name: /Once upon a time/ }).click();
    await page.locator(".run span").first().waitFor();
    // The service worker fetches the rest once the first answer is there, which may be by now.
    const worker = site.requests.findIndex((line) => line.startsWith("/sw.js"));
    const before = site.requests.slice(0, worker < 0 ? undefined : worker);
    const files = new Set(before.flatMap((line) => /^\/((?:page|insitu)\/\S+) whole 200/.exec(line)?.[1] ?? []));
    expect(
      [...files].filter((path) => /(webgpu|late-operators|grammars|families|catalogue|hub-model)-/.test(path)),
    ).toEqual([]);
    const bytes = gzipBytes(site.folder, ["index.html", ...files]);
    if (soak)
      for (const path of files)
        console.log(`${(gzipBytes(site.folder, [path]) / 1000).toFixed(1).padStart(8)} KB ${path}`);
    console.log(`before the first token: ${files.size} files, ${(bytes / 1000).toFixed(0)} KB gzip besides the model`);
    expect(bytes).toBeLessThan(450_000);
    // The model is the worker's: of the library the page's own thread reads what speaks to it.
    const own = [...importedBy(site.folder, "insitu/worker.js")];
    expect(own.length).toBeGreaterThan(3);
    expect(gzipBytes(site.folder, own)).toBeLessThan(40_000);
    await page.locator("[data-took]").waitFor();
    expect(await page.locator("[data-written]").innerText()).toMatch(/[KM]iB/);
    await page.locator(".spans").focus();
    await page.keyboard.press("ArrowRight");
    await page.locator(".alternatives li").first().waitFor();
    if (soak) {
      for (const [name, place] of Object.entries({ tokens: "end", cache: "start" })) {
        await page.locator(".panel .cache").evaluate((panel, block) => panel.scrollIntoView({ block }), place as "end");
        await picture(page, name);
      }
      expect(await seriousFaults(page)).toEqual([]);
      await page.locator("#open-settings").click();
      await picture(page, "settings");
      await page.locator("#open-models").click();
      await page.getByText("Fairy tales").first().waitFor();
      await picture(page, "models");
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await seriousFaults(page)).toEqual([]);
      }
    }
    await expect.poll(() => page.evaluate("navigator.serviceWorker.controller !== null")).toBe(true);
    await page.context().setOffline(true);
    await page.reload();
    await ready(page);
    await page.getByText("Once upon a time").first().waitFor();
    // The files that a folder may lack are looked for, and the browser says so.
    expect(problems.filter((text) => !/404|ERR_INTERNET/.test(text))).toEqual([]);
    await page.context().close();
    site.close();
  });
});
