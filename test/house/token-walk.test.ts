// The walk of one token, as src/engine/README.md tells it, of `generate` and of a request: the stack while a kernel computes, taken from the built package.
// A tripwire: it holds on to names of functions on purpose, so that a frame more on the way of every token is meant.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const dist = new URL("../../dist/", import.meta.url).href;

const program = `
Error.stackTraceLimit = 100;
const { CausalLM } = await import(${JSON.stringify(`${dist}index.node.js`)});
const { createServer } = await import(${JSON.stringify(`${dist}serve/server.js`)});
const walks = { generate: [], request: [] };
let armed;
// What every thread does for each part that it takes.
const { compareExchange } = Atomics;
Atomics.compareExchange = (...args) => {
  armed?.push(new Error().stack);
  armed = undefined;
  return compareExchange(...args);
};
const lm = await CausalLM.load(undefined, { threads: 2 });
for await (const token of lm.generate("Once upon a time", { maxTokens: 24, temperature: 0 })) armed = walks.generate;
await lm.release();
armed = undefined;
const paged = await CausalLM.load(undefined, { threads: 2, cache: "paged", batchInvariant: true });
const server = createServer(paged, { model: "embedded" });
await server.ready;
const body = JSON.stringify({ model: "embedded", prompt: "Once upon a time", max_tokens: 24, temperature: 0, stream: true });
const init = { method: "POST", headers: { "content-type": "application/json" }, body };
for await (const chunk of (await server.fetch(new Request("http://localhost/v1/completions", init))).body) armed = walks.request;
await server.close();
await paged.release();
console.log(JSON.stringify(walks));`;

/** The frames that the page lists in one of its columns, with their files. */
function toldIn(column: number): string[][] {
  const page = readFileSync(new URL("../../src/engine/README.md", import.meta.url), "utf8");
  const section = page.split("## One token, frame by frame")[1].split("\n## ")[0];
  const rows = section.split("\n").flatMap((line) => {
    const [, ...cells] = line.split("|").map((cell) => cell.trim());
    const [, file] = /^`([^`]+)\.ts`$/.exec(cells[2] ?? "") ?? [];
    return file === undefined || cells[column] === "–" ? [] : [[cells[column].replaceAll("`", "").trim(), file]];
  });
  return rows;
}

test("the frames of a token are those that its page lists, and the same for every door below the engine", () => {
  const output = execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  const framesOf = (walk: string): string[][] =>
    [...walk.matchAll(/at (?:async )?(?:(\S+) )?\(?(?:file:\S*?\/dist\/)(\S+?)\.js:/g)]
      .map(([, name = "", file]) => [name.replace(/^\w+\./, ""), file])
      .toReversed();
  const walks = JSON.parse(output) as Record<"generate" | "request", string[]>;
  for (const [column, door] of (["generate", "request"] as const).entries()) {
    const told = toldIn(column);
    // A run that the machine held up goes on from its event loop: one token of several has the whole walk.
    const found = walks[door].map(framesOf);
    expect(found.find((walk) => JSON.stringify(walk) === JSON.stringify(told)) ?? found[0], door).toEqual(told);
    expect(told.findIndex(([, file]) => file.startsWith("backends/"))).toBeLessThan(15);
    expect(new Set(told.map(([, file]) => file)).size).toBeLessThan(13);
  }
});
