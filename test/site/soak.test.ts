// The page for long: every control by keyboard alone, faults that axe-core finds in both schemes, calls of tools, reasoning, schemas, texts from right to
// left, files out and in, a folder that is dropped, and a text computed on WebGPU.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CausalLM } from "../../src/entry/node.js";
import { findChromium, startChromium } from "../browser/chromium.js";
import { builtCommand } from "../support/built.js";
import { startHub } from "../hub/local-hub.js";
import { hermesTemplate, loadModel, serveScript } from "../serve/scripted-engine.js";
import {
  ask,
  longestTask,
  modelFolder,
  openPage,
  picture,
  processorTime,
  ready,
  seriousFaults,
  serveSite,
} from "./support.js";
import { soak } from "../support/soak.js";

const chromium = findChromium();

let browser: Browser;
let lm: CausalLM;
beforeAll(async () => {
  if (chromium === undefined || !soak) return;
  browser = await startChromium(chromium);
  lm = await loadModel(`${hermesTemplate}{# thoughts stand between <think> and </think> #}`);
});
afterAll(async () => {
  await browser?.close();
  await lm?.release();
});

/** Controls that the Tab key does not reach on its way around the page; of radio buttons one of a group is enough. */
async function unreached(page: Page): Promise<string[]> {
  await page.evaluate(`document.activeElement?.blur();
    window.wanted = [...document.querySelectorAll("button, input, textarea, a[href], summary, [tabindex='0']")]
      .filter((each) => !each.disabled && !each.hidden && each.checkVisibility({ visibilityProperty: true })
        && !(each.type === "radio" && !each.checked));
    window.seen = new Set();`);
  const count = Number(await page.evaluate("window.wanted.length"));
  for (let at = 0; at < 2 * count + 12; at++) {
    await page.keyboard.press("Tab");
    await page.evaluate("window.seen.add(document.activeElement)");
  }
  return page.evaluate(
    "window.wanted.filter((each) => !window.seen.has(each)).map((each) => each.outerHTML.slice(0, 120))",
  );
}

/** Goes to a control with the Tab key. */
async function tabTo(page: Page, selector: string): Promise<void> {
  for (let at = 0; at < 150; at++) {
    if (await page.evaluate(`document.activeElement?.matches(${JSON.stringify(selector)}) === true`)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`the Tab key does not lead to ${selector}`);
}

const tools = JSON.stringify([
  { type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: {} } } } },
]);

/** Turns with the cache view and without. */
const turns = Number(process.env["INSITU_TURNS"] ?? 24);

/** Makes the same text with the cache view and without, in turns: says how fast each was, and that neither text nor page moved. */
async function inTurns(page: Page, where: string): Promise<void> {
  await ready(page);
  await page.evaluate(`window.moved = []; new PerformanceObserver((list) => list.getEntries().forEach((entry) => window.moved.push(
    ...entry.sources.map(({ node }) => (node?.outerHTML ?? node?.parentElement?.outerHTML ?? "gone").slice(0, 120))))).observe({ type: "layout-shift" })`);
  await page.locator("#open-settings").click();
  for (const [name, value] of Object.entries({ maxTokens: "400", minTokens: "400", seed: "5" }))
    await page.locator(`#setting-${name}`).fill(value);
  await page.locator("#open-settings").click();
  const rates = { with: [] as number[], without: [] as number[] };
  const seconds = { with: 0, without: 0 };
  const texts = new Set<string>();
  let [longTasks, longest, elapsed] = [0, 0, 0];
  for (let turn = 0; turn < turns; turn++) {
    // In turns, and each kind first as often as second.
    const which = (turn + Math.floor(turn / 2)) % 2 === 0 ? "without" : "with";
    await page.getByRole("button", { name: "New", exact: true }).click();
    const isOpen = (await page.locator("#open-cache").getAttribute("aria-pressed")) === "true";
    if (isOpen !== (which === "with")) await page.locator("#open-cache").click();
    await page.locator(".debug button").click();
    await page.locator("#say").fill("Once upon a time there was a king who");
    const [before, began] = [processorTime(), performance.now()];
    await page.locator("#say").press("Enter");
    await page.locator("[data-took]").waitFor();
    seconds[which] += processorTime() - before;
    if (which === "with") elapsed += (performance.now() - began) / 1000;
    texts.add(await page.locator(".message.assistant .as-is").innerText());
    const debug = page.locator(".debug");
    const shift = Number(await debug.getAttribute("data-shift"));
    expect(shift, String(await page.evaluate("JSON.stringify(window.moved.slice(-4))"))).toBeLessThan(0.001);
    rates[which].push(Number(/([\d.]+) a second/.exec(await page.locator("[data-took]").innerText())![1]));
    longTasks += Number(await debug.getAttribute("data-long-tasks"));
    longest = Math.max(longest, Number(await debug.getAttribute("data-longest")));
  }
  expect(texts.size).toBe(1);
  const middle = (list: readonly number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1];
  const pairs = rates.with.map((rate, at) => rate / rates.without[at]);
  console.log(
    [
      `${where}, ${turns} turns: tokens a second with the cache view ${middle(rates.with)}, without ${middle(rates.without)}:`,
      `${(middle(rates.with) / middle(rates.without)).toFixed(3)} ×, in pairs ${middle(pairs).toFixed(3)} ×;`,
      `processor time ${seconds.with.toFixed(2)} s, ${seconds.without.toFixed(2)} s: ${(seconds.with / seconds.without).toFixed(3)} ×;`,
      `tasks over 50 ms ${longTasks}, longest ${longest.toFixed(0)} ms`,
    ].join(" "),
  );
  await page.getByRole("button", { name: "New", exact: true }).click();
  const computed = await longestTask(browser, () => ask(page, "Once upon a time there was a king who"));
  console.log(`${where}: the longest task computed for ${computed.toFixed(0)} ms`);
  expect(computed).toBeLessThan(50);
  // Rates swing with whatever else the machine does, and so does this, but less. What is drawn four times a second costs more of a slow text.
  expect(seconds.with - seconds.without).toBeLessThanOrEqual(Math.max(0.15 * seconds.without, 0.1 * elapsed));
}

describe.skipIf(chromium === undefined || !soak)("over a server, for long", () => {
  /** The server that the command starts. */
  async function command(...options: readonly string[]): Promise<{ address: string; stop: () => void }> {
    const child = spawn(process.execPath, [builtCommand, "serve", "--port", "0", ...options], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const address = await new Promise<string>((resolve) => {
      child.stdout.once("data", (line) => resolve(/http:\S+/.exec(String(line))![0]));
    });
    return { address, stop: () => void child.kill() };
  }

  test("chooses among the models of a server; the conversation stays", async () => {
    const { address, stop } = await command("--model", `wolf=${modelFolder}`, "--model", `fox=${modelFolder}`);
    const { page, problems } = await openPage(browser, address);
    await page.goto(address);
    await ready(page);
    await page.locator("#open-settings").click();
    await page.locator("#setting-maxTokens").fill("8");
    await ask(page, "Once upon a time");
    await page.locator("#open-models").getByText("wolf").waitFor();
    await page.locator("#open-models").click();
    await page.locator(".choices li").filter({ hasText: "wolf" }).getByText("loaded").waitFor();
    expect(await page.locator(".choices li").filter({ hasText: "fox" }).innerText()).toContain(
      "is loaded when it is asked",
    );
    await page.getByRole("button", { name: "Use fox" }).click();
    await page.locator(".choices .current").filter({ hasText: "fox" }).waitFor();
    await ask(page, "And then");
    // What the model tells of itself once it is loaded: how long its context is.
    await page.getByText("512 tokens").waitFor();
    expect(await page.locator(".message").count()).toBe(4);
    await picture(page, "server-models");
    await page.locator("#open-cache").click();
    await page.getByText(/All \d+ caches are written in place/).waitFor();
    await page
      .locator("[data-held]")
      .getByText(/are free/)
      .waitFor();
    await picture(page, "server-cache");
    await page.reload();
    await page.locator("#open-models").getByText("fox").waitFor();
    expect(problems).toEqual([]);
    await page.context().close();
    stop();
  });

  test("tells the same text with the cache view and without", async () => {
    const { address, stop } = await command();
    const { page } = await openPage(browser, address);
    await page.goto(`${address}/?debug`);
    await inTurns(page, "over a server");
    await page.context().close();
    stop();
  });

  test("every control by keyboard alone; axe-core in both schemes", async () => {
    const served = await serveScript(lm, () => ({ text: "A **bold** word.\n\n```js\nlet a = 1;\n```" }));
    const { page, problems } = await openPage(browser, served.address);
    await page.goto(served.address);
    await ready(page);
    await page.keyboard.type("By keyboard");
    await page.keyboard.press("Enter");
    await page.locator("[data-took]").waitFor();
    for (const name of ["regenerate", "regenerate"]) {
      await tabTo(page, `.message.assistant button[title="${name === "regenerate" ? "Regenerate" : name}"]`);
      await page.keyboard.press("Enter");
      await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
    }
    await page.getByText("3/3").waitFor();
    // The focus goes along: through branches with one key, and back to where one came from.
    const focused = (): Promise<string> =>
      page.evaluate("document.activeElement.title || document.activeElement.id || document.activeElement.tagName");
    await expect.poll(focused).toBe("say");
    await tabTo(page, 'button[aria-label="Branch before"]');
    for (const shown of ["2/3", "1/3", "2/3"]) {
      await page.keyboard.press("Space");
      await page.getByText(shown).waitFor();
    }
    await tabTo(page, 'button[title="Edit and branch"]');
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    await expect.poll(focused).toBe("Edit and branch");
    await page.keyboard.press("Enter");
    await page.keyboard.type(" again");
    await page.keyboard.press("Enter");
    await page.locator(".message.user").getByText("2/2").waitFor();
    await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
    await expect.poll(focused).toBe("say");
    await tabTo(page, 'button[title="Rename"]');
    await page.keyboard.press("Enter");
    await page.keyboard.type("Named");
    await page.keyboard.press("Enter");
    await expect.poll(focused).toBe("Rename");
    await page.locator(".history .open").getByText("Named").waitFor();
    await tabTo(page, 'button[title="Continue"]');
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
    expect(await unreached(page)).toEqual([]);
    for (const name of ["cache", "settings", "models"]) {
      await tabTo(page, `#open-${name}`);
      await page.keyboard.press("Enter");
      await page.locator(".panel h2").waitFor();
      await expect.poll(() => page.evaluate("document.activeElement.id")).toBe("panel-title");
      expect(await unreached(page)).toEqual([]);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await seriousFaults(page)).toEqual([]);
      }
      await page.keyboard.press("Escape");
      await expect.poll(() => page.locator(".panel").count()).toBe(0);
      expect(await page.evaluate("document.activeElement.id")).toBe(`open-${name}`);
    }
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await seriousFaults(page)).toEqual([]);
    }
    await page.keyboard.press("Control+k");
    await expect.poll(() => page.evaluate("document.activeElement.id")).toBe("search");
    await page.keyboard.type("keyboard");
    expect(await page.locator(".history li").count()).toBe(1);
    await tabTo(page, 'input[name="mode"]');
    await page.keyboard.press("ArrowRight");
    await page.getByText("Begin a text").waitFor();
    expect(problems).toEqual([]);
    await page.context().close();
    await served.stop();
  });

  test("renames, rewrites, deletes and attaches; code has colours", async () => {
    let answer = "Before\n\n```js\nreturn 1; // one\n```";
    const served = await serveScript(lm, () => ({ text: answer }));
    const { page, problems } = await openPage(browser, served.address);
    await page.goto(`${served.address}/?q=From%20a%20link`);
    await ready(page);
    expect(await page.locator("#say").inputValue()).toBe("From a link");
    expect(await page.locator(".message").count()).toBe(0);
    await ask(page, "First");
    expect(await page.locator(".hl-word").innerText()).toBe("return");
    expect(await page.locator(".message pre").innerText()).toBe("return 1; // one");

    await page.getByRole("button", { name: "Rewrite" }).click();
    await page.getByLabel("Rewrite the answer").fill("What I would have said");
    await page.getByRole("button", { name: "Keep as a new branch" }).click();
    await page.locator(".message.assistant").getByText("2/2").waitFor();
    answer = "And on";
    await ask(page, "Second");
    const sent = served.engine.requests.at(-1)!;
    expect(lm.tokenizer.decode(sent.prompt)).toContain("What I would have said");

    const last = page.locator(".message.user").last();
    await last.getByRole("button", { name: /^Delete/ }).click();
    expect(await page.locator(".message").count()).toBe(4);
    await last.getByRole("button", { name: /press again/ }).click();
    await expect.poll(() => page.locator(".message").count()).toBe(2);

    await page.getByRole("button", { name: "Rename “First”" }).click();
    await page.getByLabel("A name for “First”").fill("Named");
    await page.keyboard.press("Enter");
    await page.locator(".history .open").getByText("Named").waitFor();

    await page
      .getByLabel("Attach text files")
      .last()
      .setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("some `notes`") });
    await page.locator(".files").getByText("notes.txt").waitFor();
    await page.evaluate(`(() => {
      const data = new DataTransfer();
      data.setData("text/plain", "pasted ".repeat(1000));
      document.getElementById("say").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    })()`);
    await page.locator(".files").getByText("Pasted text").waitFor();
    await page.getByLabel("Take “Pasted text” away").click();
    expect(await seriousFaults(page)).toEqual([]);
    await ask(page, "What is in it?");
    expect(lm.tokenizer.decode(served.engine.requests.at(-1)!.prompt)).toContain(
      "notes.txt\n```\nsome `notes`\n```\n\nWhat is in it?",
    );
    expect(await page.locator(".files").count()).toBe(0);

    await page.keyboard.press("Control+Shift+O");
    await page.getByText("Ask something.").waitFor();
    await page.reload();
    await ready(page);
    await page.locator(".history .open").getByText("Named").click();
    await page.locator(".message").nth(3).waitFor();
    await page.getByRole("button", { name: "Remove “Named”", exact: true }).click();
    await page.getByRole("button", { name: "Remove “Named”: press again" }).click();
    await expect.poll(() => page.locator(".history li").count()).toBe(0);
    expect(problems).toEqual([]);
    await page.context().close();
    await served.stop();
  });

  test("no task of the page's thread computes for 50 ms while an answer comes, with the cache in sight", async () => {
    const part =
      "## A part\n\nWords about `code` and **bold** things.\n\n- one\n- two\n\n```js\nlet a = 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n";
    const served = await serveScript(lm, () => ({ text: part.repeat(60) }), { context: 65_536 });
    const { page } = await openPage(browser, served.address);
    await page.goto(`${served.address}/?debug`);
    await ready(page);
    await page.locator("#open-settings").click();
    await page.locator("#setting-maxTokens").fill("16000");
    await page.locator("#open-cache").click();
    const longest = await longestTask(browser, () => ask(page, "Go"));
    console.log(`longest task over a server: ${longest.toFixed(0)} ms; ${await page.locator(".debug").innerText()}`);
    expect(longest).toBeLessThan(50);
    await page.context().close();
    await served.stop();
  });

  test("shows calls, reasoning and parsed JSON; texts from right to left; files out and in", async () => {
    let answer =
      '<think>I need the weather.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>';
    const served = await serveScript(lm, () => ({ text: answer }));
    const { page, problems } = await openPage(browser, served.address);
    await page.goto(served.address);
    await ready(page);
    await page.locator("#open-settings").click();
    await page.locator("#setting-tools").fill("[1]");
    await page.getByText("Tools are a list").first().waitFor();
    await page.locator("#setting-tools").fill(tools);
    await ask(page, "The weather in Bern?");
    const last = page.locator(".message.assistant").last();
    expect(await last.locator(".fold").filter({ hasText: "Calls weather" }).locator("pre").innerText()).toContain(
      '"Bern"',
    );
    await last.getByText("Reasoning").click();
    await last.getByText("I need the weather.").waitFor();
    await picture(page, "calls");
    expect(await last.locator(".markdown").innerText()).toBe("I look.");
    await page.locator("#setting-tools").fill("");

    answer = '{"city":"Bern","warm":true}';
    const schema = {
      type: "object",
      properties: { city: { type: "string" }, warm: { type: "boolean" } },
      required: ["city", "warm"],
      additionalProperties: false,
    };
    await page.locator("#setting-jsonSchema").fill(JSON.stringify(schema));
    await ask(page, "As JSON");
    const parsed = page.locator(".message.assistant").last().locator(".fold").filter({ hasText: "Parsed JSON" });
    expect(JSON.parse(await parsed.locator("pre").innerText())).toEqual(JSON.parse(answer));
    await page.locator("#setting-jsonSchema").fill("");

    answer = "مرحبا بالعالم";
    await ask(page, "שלום");
    for (const said of await page
      .locator(".message")
      .all()
      .then((all) => all.slice(-2)))
      expect(
        await said
          .locator("p[dir=auto]")
          .first()
          .evaluate((element) => getComputedStyle(element).direction),
      ).toBe("rtl");

    await picture(page, "right-to-left");

    // What goes out comes in again, in a browser that knows nothing of it.
    const place = mkdtempSync(join(tmpdir(), "insitu-site-"));
    const saved = async (from: Page, name: string): Promise<string> => {
      const [download] = await Promise.all([
        from.waitForEvent("download"),
        from.getByRole("button", { name, exact: true }).click(),
      ]);
      const path = join(place, download.suggestedFilename());
      await download.saveAs(path);
      return path;
    };
    expect(readFileSync(await saved(page, ".md"), "utf8")).toContain("**Model**\n\nI look.");
    const file = await saved(page, "Export");
    const other = await openPage(browser, served.address);
    await other.page.goto(served.address);
    await ready(other.page);
    await other.page.getByLabel("Import conversations").setInputFiles(join(place, "insitu-conversations.json"));
    await other.page.getByText("1 conversation imported.").waitFor();
    await other.page.locator(".history .open").click();
    expect(await other.page.locator(".message").count()).toBe(6);
    await other.page.getByText("Calls weather").waitFor();
    const first = JSON.parse(readFileSync(file, "utf8")) as unknown;
    expect(JSON.parse(readFileSync(await saved(other.page, "Export"), "utf8"))).toEqual(first);
    await other.page
      .getByLabel("Import conversations")
      .setInputFiles({ name: "a.json", mimeType: "application/json", buffer: Buffer.from("{}") });
    await other.page.getByText("this file holds no conversations").waitFor();
    rmSync(place, { recursive: true });
    expect([...problems, ...other.problems]).toEqual([]);
    await page.context().close();
    await other.page.context().close();
    await served.stop();
  });
});

describe.skipIf(chromium === undefined || !soak)("in the browser alone, for long", () => {
  test("tells the same text with the cache view and without, and nothing moves while it does", async () => {
    const site = await serveSite();
    const { page } = await openPage(browser, site.base);
    await page.goto(`${site.base}/?debug`);
    await inTurns(page, "in the browser");
    await page.getByRole("button", { name: "Regenerate" }).click();
    await page.getByText("2/2").waitFor();
    await page.locator("[data-took]").waitFor();
    const switched: number[] = [];
    for (const name of ["Branch before", "Next branch", "Branch before", "Next branch"]) {
      await page.getByRole("button", { name }).click();
      await page.getByText(name === "Branch before" ? "1/2" : "2/2").waitFor();
      switched.push(Number(await page.locator("[data-switched]").getAttribute("data-switched")));
    }
    console.log(`branches of 400 tokens switched in ${switched.map((each) => each.toFixed(0)).join(", ")} ms`);
    expect(Math.min(...switched)).toBeLessThan(100);
    await page.context().close();
    site.close();
  });

  test("loads by hub name: stopped, loaded, kept, removed; the conversation stays, and so do reasoning and JSON", async () => {
    const repository = new Map<string, Uint8Array>();
    for (const path of readdirSync(modelFolder, { recursive: true, encoding: "utf8" }))
      if (statSync(join(modelFolder, path)).isFile())
        repository.set(path.replace("model.onnx", "model_q4.onnx"), readFileSync(join(modelFolder, path)));
    // It thinks, always: the template says so.
    const template = "{{ messages[-1].content }}<think>{# thoughts stand between <think> and </think> #}";
    repository.set("tokenizer_config.json", Buffer.from(JSON.stringify({ chat_template: template })));
    const hub = await startHub(new Map([["somebody/thinker", repository]]));
    const site = await serveSite();
    const { page, problems } = await openPage(browser, site.base);
    let held = (): void => {};
    let isHeld = true;
    await page.context().route("https://huggingface.co/**", async (route) => {
      if (isHeld && route.request().url().includes(".onnx")) await new Promise<void>((go) => (held = go));
      const url = route.request().url().replace("https://huggingface.co", hub.url);
      await route.fulfill({ response: await route.fetch({ url }) }).catch(() => {});
    });
    await page.goto(site.base);
    await ready(page);
    await page.locator("#open-settings").click();
    await page.locator("#setting-maxTokens").fill("24");
    await page.locator("#open-settings").click();
    await ask(page, "Once upon a time");
    await page.locator("#open-models").click();
    await page.getByLabel("A name on the hub, or a URL").fill("somebody/thinker");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Stop", exact: true }).first().click();
    await page.getByRole("alert").getByText("Loading was stopped").first().waitFor();
    isHeld = false;
    held();
    const choice = page.locator(".choices li").filter({ hasText: "somebody/thinker" });
    await choice.getByRole("button", { name: "Load" }).click();
    await choice.getByText("in use").waitFor();
    await choice.getByText("kept").waitFor();
    expect(await page.locator(".message").count()).toBe(2);
    await page.locator('label:has-text("Chat") input').first().check({ force: true });
    await ask(page, "Think of a wolf");
    await page.locator(".message summary").getByText("Reasoning").click();
    expect((await page.locator(".message.assistant .fold .as-is").innerText()).length).toBeGreaterThan(10);

    // Models are chosen again as they were left; one that is not wanted any more goes.
    await page.reload();
    await ready(page);
    await page.locator("#open-models").getByText("somebody/thinker").waitFor();
    await page.locator("#open-models").click();
    await page
      .locator(".choices li")
      .filter({ hasText: "Fairy tales" })
      .getByRole("button", { name: /Use|Load/ })
      .click();
    await page.locator(".choices .current").filter({ hasText: "Fairy tales" }).waitFor();
    await page.getByLabel("Remove somebody/thinker from this browser").click();
    await expect.poll(() => page.getByLabel("Remove somebody/thinker from this browser").count()).toBe(0);

    await page.locator("#open-settings").click();
    await page.locator("#setting-tools").fill(tools);
    await ask(page, "Hello");
    await page
      .locator(".message .problem")
      .getByText(/option tools: /)
      .waitFor();
    await page.locator("#setting-tools").fill("");
    const schema = { type: "object", properties: { tall: { type: "boolean" } }, required: ["tall"] };
    await page.locator("#setting-jsonSchema").fill(JSON.stringify(schema));
    await page.locator(".message .problem").getByRole("button", { name: "Send again" }).click();
    const parsed = page.locator(".message.assistant").last().locator(".fold").filter({ hasText: "Parsed JSON" });
    expect(JSON.parse(await parsed.locator("pre").innerText())).toEqual({ tall: expect.any(Boolean) });
    expect(problems.filter((text) => !/404|huggingface/.test(text))).toEqual([]);
    await page.context().close();
    await hub.close();
    site.close();
  });

  test("takes a folder that is dropped, and computes on WebGPU", async () => {
    const site = await serveSite();
    const { page, problems } = await openPage(browser, site.base);
    await page.goto(site.base);
    await ready(page);
    const session = await page.context().newCDPSession(page);
    const data = { items: [], files: [modelFolder], dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"] as const)
      await session.send("Input.dispatchDragEvent", { type, x: 600, y: 300, data });
    await page.getByText("A folder of this machine").waitFor();
    await page.locator(".choices .current").filter({ hasText: "embedded" }).waitFor();
    await page.locator("#say").fill("Once upon a time");
    await page.locator("#say").press("Enter");
    await page.locator("[data-took]").waitFor();

    await page.locator('label:has-text("WebGPU") input').check({ force: true });
    await page.locator("#open-models").getByText("WebGPU").waitFor();
    await ready(page);
    await page.getByRole("button", { name: "New", exact: true }).click();
    await page.locator("#open-settings").click();
    await page.locator("#setting-maxTokens").fill("8");
    await page.locator("#say").fill("Once upon a time");
    await page.locator("#say").press("Enter");
    await page.locator("[data-took]").waitFor();
    expect(await page.locator("[data-took]").innerText()).toContain("8 tokens");
    expect(problems.filter((text) => !/404/.test(text))).toEqual([]);
    await page.context().close();
    site.close();
  });
});
