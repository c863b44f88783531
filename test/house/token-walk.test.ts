// The walk of one token, as ARCHITECTURE.md tells it: the stack while a kernel computes, taken from the built package.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const dist = new URL("../../dist/", import.meta.url).href;

const program = `
Error.stackTraceLimit = 100;
const { CausalLM } = await import(${JSON.stringify(`${dist}index.node.js`)});
const lm = await CausalLM.load(undefined, { threads: 2 });
const walks = [];
let armed = false;
// What every thread does for each part that it takes.
const { compareExchange } = Atomics;
Atomics.compareExchange = (...args) => {
  if (armed) walks.push(new Error().stack);
  armed = false;
  return compareExchange(...args);
};
for await (const token of lm.generate("Once upon a time", { maxTokens: 24, temperature: 0 })) armed = true;
await lm.release();
console.log(JSON.stringify(walks));`;

test("the frames of a token are those that ARCHITECTURE.md lists", () => {
  const page = readFileSync(new URL("../../ARCHITECTURE.md", import.meta.url), "utf8");
  const section = page.split("## One token, frame by frame")[1].split("\n## ")[0];
  const told = [...section.matchAll(/^\| (?:`([^`]+)` )?\| `([^`]+)\.ts` \|/gm)].map(([, name = "", file]) => [
    name,
    file,
  ]);
  const output = execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  const framesOf = (walk: string): string[][] =>
    [...walk.matchAll(/at (?:async )?(?:(\S+) )?\(?(?:file:\S*?\/dist\/)(\S+?)\.js:/g)]
      .map(([, name = "", file]) => [name.replace(/^\w+\./, ""), file])
      .toReversed();
  // A run that the machine held up goes on from its event loop: one token of several has the whole walk.
  const walks = (JSON.parse(output) as string[]).map(framesOf);
  expect(walks.find((walk) => JSON.stringify(walk) === JSON.stringify(told)) ?? walks[0]).toEqual(told);
  expect(told.length).toBeLessThan(18);
  expect(new Set(told.map(([, file]) => file)).size).toBeLessThan(11);
});
