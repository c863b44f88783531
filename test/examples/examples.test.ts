// The programs below examples/ run as they are, by the package's own name, and do what their first lines say.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";
import { isolation, startServer } from "../browser/server.js";
import { soak } from "../support/soak.js";

const folder = fileURLToPath(new URL("../../examples", import.meta.url));
const run = (name: string, ...args: string[]): string =>
  execFileSync(process.execPath, [join(folder, name), ...args], { encoding: "utf8" });

describe("programs", () => {
  test("story.mjs", () => {
    const told = run("story.mjs", "The old woman said", "7");
    expect(told).toMatch(/^The old woman said\S* \S/);
    expect(told).toMatch(
      /\n\n\d+ tokens a second\.\n\d+ cache bytes were written, 0 moved; .* would have moved \d+\.\n$/,
    );
    // The soak tells it twice.
    if (soak) expect(run("story.mjs", "The old woman said", "7").split("\n\n")[0]).toBe(told.split("\n\n")[0]);
  });

  test("chat.mjs", () => {
    const said = run("chat.mjs");
    const [first, second, third] = [...said.matchAll(/\[(\d+) of (\d+) tokens were new\]/g)].map(([, fresh, all]) => [
      Number(fresh),
      Number(all),
    ]);
    expect(first[0]).toBe(first[1]);
    for (const [fresh, all] of [second, third]) expect(fresh).toBeLessThan(all / 2);
    expect(said).not.toMatch(/user: The eldest/);
  });

  test("many-texts.mjs", () => expect(run("many-texts.mjs")).toMatch(/^batch[^]*samples[^]*beams/));

  test("decode-loop.mjs", () =>
    expect(run("decode-loop.mjs")).toMatch(/^There was once a \S[^]*rows valid: 23, bytes moved: 0/));

  test("resume.mjs", () =>
    expect(run("resume.mjs")).toMatch(/^the same text\n(\d+) of \d+ prompt tokens were not read again\n$/));
});

/** Starts a server of the examples on a free port; its address. */
async function serve(name: string): Promise<{ readonly child: ChildProcess; readonly address: string }> {
  const child = spawn(process.execPath, [join(folder, name), "0"], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const chunk of child.stdout!.setEncoding("utf8")) {
    const address = /http:\S+/.exec(String(chunk))?.[0];
    if (address !== undefined) return { child, address };
  }
  throw new Error(`${name} ended without an address`);
}

test("server.mjs answers, refuses in one sentence, and lets go of whoever hangs up", async () => {
  const { child, address } = await serve("server.mjs");
  try {
    const ask = (query: string): Promise<Response> => fetch(`${address}/?${query}`);
    const [one, two] = await Promise.all([ask("prompt=The+wolf&max_tokens=8"), ask("prompt=The+fox&max_tokens=8")]);
    expect((await one.text()).length).toBeGreaterThan(8);
    expect((await two.text()).length).toBeGreaterThan(8);
    const empty = await ask("");
    expect([empty.status, await empty.text()]).toEqual([400, expect.stringMatching(/^the prompt is empty.*\n$/)]);
    expect((await ask("prompt=x&max_tokens=-1")).status).toBe(400);
    const left = await ask("prompt=The+wolf&max_tokens=100");
    await left.body!.cancel();
    expect((await ask("prompt=The+wolf&max_tokens=2")).status).toBe(200);
  } finally {
    child.kill();
  }
});

test("openai-server.mjs answers a client, and ends when the texts are finished", async () => {
  const { child, address } = await serve("openai-server.mjs");
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  try {
    const asked = await fetch(`${address}/v1/completions`, {
      method: "POST",
      body: JSON.stringify({ prompt: "The wolf", max_tokens: 20, stream: true }),
    });
    child.kill("SIGTERM");
    expect(await asked.text()).toMatch(/data: \[DONE\]\n\n$/);
    expect(await ended).toBe(0);
  } finally {
    child.kill("SIGKILL");
  }
});

const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);

test.skipIf(chromium === undefined)("browser/ tells one story at a time, and fits a telephone", async () => {
  const { child, address } = await serve("browser/serve.mjs");
  const browser = await startChromium(chromium!);
  try {
    const page = await browser.newPage({ viewport: { width: 360, height: 780 } });
    page.setDefaultTimeout(240_000);
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("console", (message) => void (message.type() === "error" && problems.push(message.text())));
    const stateIs = (state: RegExp): Promise<unknown> =>
      expect.poll(() => page.textContent("#state"), { timeout: 240_000 }).toMatch(state);
    await page.goto(address);
    await stateIs(/^ready in .* on WebAssembly$/);
    expect(await page.evaluate("crossOriginIsolated")).toBe(true);

    await page.fill("#prompt", "  ");
    await page.click("#tell");
    expect(await page.textContent("#problem")).toMatch(/^Write how the story begins/);

    await page.fill("#prompt", "The wolf said");
    await page.fill("#tokens", "24");
    await page.click("#tell");
    await stateIs(/^told, on WebAssembly$/);
    const story = await page.textContent("#story");
    expect(story).toMatch(/^The wolf said\S* \S/);
    expect(await page.textContent("#summary")).toMatch(/tokens24.*caches moved0 B/);
    expect(await page.isVisible("#problem")).toBe(false);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(360);

    // Three clicks tell one story, and the same one.
    await page.evaluate(`document.getElementById("state").textContent = "";
        for (let click = 0; click < 3; click++) document.getElementById("tell").click();`);
    await stateIs(/^told/);
    expect(await page.textContent("#story")).toBe(story);
    await page.fill("#seed", "2");
    await page.fill("#tokens", "480");
    await page.click("#tell");
    await expect.poll(() => page.textContent("#continuation"), { timeout: 240_000 }).toMatch(/\S/);
    await page.click("#stop");
    await stateIs(/^(stopped|told)/);
    expect(await page.textContent("#story")).not.toBe(story);

    // What is no path is answered, and the server stays.
    const statuses = await Promise.all(["%", "%00", "%2e%2e/package.json", ""].map((path) => fetch(address + path)));
    expect(statuses.map(({ status }) => status)).toEqual([400, 400, 404, 200]);
    // The files that a folder may lack are looked for, and the browser says so.
    expect(problems.filter((text) => !/404/.test(text))).toEqual([]);
  } finally {
    await browser.close();
    child.kill();
  }
});

test("docs/browsers.md shows chat-pages/react.jsx as it is", () => {
  const page = readFileSync(new URL("../../docs/browsers.md", import.meta.url), "utf8");
  expect(page).toContain(`\`\`\`jsx\n${readFileSync(join(folder, "chat-pages/react.jsx"), "utf8")}\`\`\``);
});

test.skipIf(chromium === undefined)("chat-pages/ stream answers, plainly and in React", async () => {
  const place = mkdtempSync(join(tmpdir(), "insitu-chat-"));
  const { build } = await import("esbuild");
  await build({
    entryPoints: [join(folder, "chat-pages/main.jsx")],
    bundle: true,
    format: "esm",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    // The library's own bundle lies beside it.
    external: ["/insitu/worker.js"],
    alias: { "insitu/worker": "/insitu/worker.js" },
    outfile: join(place, "main.js"),
    logLevel: "silent",
  });
  cpSync(join(folder, "chat-pages/index.html"), join(place, "index.html"));
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const served = await startServer({
    headers: isolation,
    folders: { "/insitu/": join(root, "dist/browser"), "/models/": join(root, "models"), "/": place },
    files: new Map(),
  });
  const browser = await startChromium(chromium!);
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(120_000);
    await page.goto(`${served.base}/index.html`);
    await page.waitForFunction("document.title === 'ready'");
    for (const name of ["plain", "react"]) {
      await page.locator(`#${name} input`).fill("The wolf said");
      await page.locator(`#${name} input`).press("Enter");
      await expect.poll(() => page.locator(`#${name} .assistant`).innerText()).toMatch(/\S/);
      await expect.poll(() => page.locator(`#${name} input`).isEnabled()).toBe(true);
    }
  } finally {
    await browser.close();
    served.close();
    rmSync(place, { recursive: true });
  }
});

test("every example has a test and says what it is", () => {
  const source = ["examples.test.ts", "cluster.test.ts", "kubernetes.test.ts"]
    .map((name) => readFileSync(new URL(name, import.meta.url), "utf8"))
    .join("\n");
  for (const name of readdirSync(folder)) {
    expect(source, name).toContain(name.endsWith(".mjs") ? `"${name}"` : `"${name}/`);
    if (name.endsWith(".mjs")) expect(readFileSync(join(folder, name), "utf8"), name).toMatch(/^\/\/ \S/);
  }
});
