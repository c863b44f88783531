// Loads each file of a list, in this process alone, and prints a line of JSON for each: milliseconds by stage, megabytes that the process
// has grown by, and what was refused. The processor's time counts, so that other processes do not: both are printed.
// `node --expose-gc measure.mjs FILE…`
import { readFileSync } from "node:fs";
import { InferenceSession } from "../../dist/index.node.js";
import { drawPlan } from "../../dist/tools/pictures/draw.js";
import { makePlan } from "../../dist/plan/plan.js";
import { compileProgram } from "../../dist/plan/program.js";
import { preparedGraphOf } from "../../dist/session/load.js";
import { readModel } from "../../dist/onnx/read.js";
import { printModel } from "../../dist/explain/print-model.js";

const megabytes = () => process.resourceUsage().maxRSS / 1024;

/** Runs one stage; its error, or "" where there was none. */
async function stage(times, name, work) {
  const [wall, processor] = [performance.now(), process.cpuUsage()];
  try {
    return { value: await work(), error: "" };
  } catch (error) {
    return { value: undefined, error: `${error?.name}: ${error?.code}: ${String(error?.message).slice(0, 200)}` };
  } finally {
    const { user, system } = process.cpuUsage(processor);
    // A process that waits for others has little of either: the lesser one is its own.
    times[name] = Math.round(Math.min(performance.now() - wall, (user + system) / 1000));
  }
}

/** Inputs of every symbol's size 2, for a first compilation. */
const smallFacts = ({ inputs }) =>
  inputs.map(({ fact }) => ({
    type: fact.type,
    shape: (fact.shape ?? [2]).map((dim) => (typeof dim === "number" ? dim : 2)),
  }));

async function measure(path) {
  const bytes = new Uint8Array(readFileSync(path));
  const times = {};
  const errors = {};
  const note = ({ value, error }, name) => {
    if (error !== "") errors[name] = error;
    return value;
  };
  const session = note(
    await stage(times, "load", () => InferenceSession.create(bytes.slice(), { backend: "reference" })),
    "load",
  );
  if (session !== undefined) {
    note(
      await stage(times, "explain", () => [session.explain(), JSON.stringify(session.explain({ json: true }))]),
      "explain",
    );
    await session.release();
    const plan = makePlan(preparedGraphOf(readModel(bytes)).graph);
    note(await stage(times, "draw", () => drawPlan(plan, { weightBytes: 0, arenaBytes: undefined })), "draw");
    note(await stage(times, "compile", () => compileProgram(plan, smallFacts(plan.graph))), "compile");
  }
  note(await stage(times, "print", () => printModel(readModel(bytes))), "print");
  const rewritten = await stage(times, "rewrite", () =>
    InferenceSession.create(bytes.slice(), { backend: "reference", rewrite: "auto" }),
  );
  note(rewritten, "rewrite");
  await rewritten.value?.release();
  return { bytes: bytes.length, times, errors };
}

// What is compiled once is compiled before anything is measured.
for (const path of process.argv.slice(2, 3)) await measure(path);
globalThis.gc?.();
const before = megabytes();
for (const path of process.argv.slice(2)) {
  globalThis.gc?.();
  process.stdout.write(`${JSON.stringify({ begins: path })}\n`);
  const measured = await measure(path);
  process.stdout.write(`${JSON.stringify({ path, ...measured, megabytes: Math.round(megabytes() - before) })}\n`);
}
