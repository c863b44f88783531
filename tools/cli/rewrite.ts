/** `insitu rewrite`: a decoder whose caches grow becomes one whose caches are written in place. Writes a whole file or none. */
import { existsSync } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, normalize, resolve } from "node:path";
import { InsituError } from "#insitu/base/error.js";
import { InferenceSession } from "#insitu/entry/node.js";
import { mapTensors } from "#insitu/onnx/map-tensors.js";
import type { Model } from "#insitu/onnx/model.js";
import { writeModelPieces } from "#insitu/onnx/write.js";
import { type CheckResult, checkRewrite } from "../../tools/rewrite-check/check.js";
import { reportText } from "#insitu/rewrite/report.js";
import { rewrite as rewriteModel } from "#insitu/rewrite/rewrite.js";
import { openForRewriting } from "#insitu/rewrite/rewrite-source.js";
import { nodePlatform } from "#insitu/platform/node.js";
import type { Command } from "#insitu/cli/command.js";
import { toolSummaries } from "#insitu/cli/tools.js";
import { copyWhole, temporaryName, writePieces } from "./whole-files.js";
import { UsageError } from "#insitu/cli/usage.js";

/** Rewrites a decoder. */
export const rewrite: Command = {
  name: "rewrite",
  positionals: "<in.onnx>",
  arity: [1, 1],
  summary: toolSummaries.rewrite,
  options: {
    output: { value: "out.onnx", short: "o", describes: "where the rewritten model goes; required" },
    capacity: { value: "N", describes: "rows of the caches (default: a symbol, `capacity`)" },
    check: { describes: "run both models on random prompts first; exit 1 and write nothing where they differ" },
    "check-seconds": {
      value: "S",
      describes: "how long the check may go on past the longest window (default: 60)",
    },
    opset: {
      value: "24|25",
      describes: "25 leaves windows to Attention itself; 24, the default, is what other runtimes load",
    },
    "keep-mask": { describes: "keep the mask of padding as an input, [batch, capacity]" },
    json: { describes: "what was done, and what the check found, as JSON" },
  },
  async run({ positionals: [path], options }) {
    const output = options["output"];
    if (typeof output !== "string")
      throw new UsageError("insitu rewrite: -o out.onnx says where the model goes; it is missing");
    const capacity = wholeNumber(options["capacity"], "capacity");
    const seconds = wholeNumber(options["check-seconds"], "check-seconds");
    const opset = wholeNumber(options["opset"], "opset") ?? 24;
    if (opset !== 24 && opset !== 25) throw new UsageError(`--opset must be 24 or 25, got ${opset}`);
    if (resolve(output) === resolve(path)) throw new UsageError(`-o ${output} is the model itself: give another name`);
    if ((await stat(output).catch(() => undefined))?.isDirectory() === true)
      throw new UsageError(`-o ${output} is a folder: give the file's name too, such as ${join(output, "model.onnx")}`);
    if (!existsSync(dirname(resolve(output))))
      throw new UsageError(`-o ${output} is in a folder that is not there: make ${dirname(output)} first`);
    const original = await openForRewriting(path, nodePlatform);
    const { model, report } = rewriteModel(original, { capacity, opset, keepMask: options["keep-mask"] === true });
    const temporary = temporaryName(output);
    const weights = weightFiles(model, path);
    let check: CheckResult | undefined;
    try {
      await writePieces(temporary, writeModelPieces(model));
      if (options["check"] === true)
        check = await checkRewrite(
          {
            model: original,
            original: path,
            rewritten: temporary,
            externalData: weights,
            foreign: report.foreign,
            capacity: typeof report.capacity === "number" ? report.capacity : undefined,
            ...(seconds === undefined ? {} : { seconds }),
            onProgress: checkProgress(seconds ?? 60),
          },
          (source, more) => InferenceSession.create(source, more),
        );
      if (check?.passed !== false) {
        // Weights in other files stay there: a model that goes to another folder gets its own copies.
        for (const { path: location, data } of weights) await copyWhole(data, join(dirname(output), location));
        await rename(temporary, output);
      }
    } finally {
      await rm(temporary, { force: true });
    }
    if (options["json"] === true)
      console.log(JSON.stringify({ ...report, ...(check === undefined ? {} : { check }) }, null, 2));
    else {
      console.log(reportText(report));
      if (check !== undefined) console.log(checkText(check));
      if (check?.passed !== false) console.log(`written to ${output}`);
    }
    if (check?.passed === false)
      console.error(
        `insitu: the rewritten model differs from the original by more than ${check.tolerance}; nothing was written`,
      );
    return check?.passed === false ? 1 : 0;
  },
};

function wholeNumber(given: string | boolean | undefined, name: string): number | undefined {
  if (typeof given !== "string") return undefined;
  if (!/^\d+$/.test(given)) throw new UsageError(`--${name} must be a whole number, got "${given}"`);
  return Number(given);
}

const checkText = ({ steps, tolerance, masks }: CheckResult): string => {
  const width = Math.max(...steps.map(({ name }) => name.length));
  const lines = steps.map(
    ({ name, difference }) =>
      `  ${name.padEnd(width)}  ${difference.toExponential(1)}${difference <= tolerance ? "" : "  too large"}`,
  );
  const covered = masks.map(({ what, covered, tokens, needed, reason }) =>
    covered
      ? `${what}: left behind by a text of ${tokens} tokens`
      : `${what}: NOT checked from outside, which takes ${needed} tokens: ${reason}; --check-seconds and --capacity set its bounds`,
  );
  return [`largest differences, at most ${tolerance} allowed:`, ...lines, ...covered].join("\n");
};

/** Tells on a terminal how far a long check has come. */
function checkProgress(
  seconds: number,
  terminal: Pick<NodeJS.WriteStream, "isTTY" | "write"> = process.stderr,
): (done: number, total: number) => void {
  return (done, total) => {
    if (!terminal.isTTY) return;
    terminal.write(done >= total ? "\r\x1b[K" : `\r\x1b[Kchecking: ${done} of ${total} tokens, ${seconds} s at most`);
  };
}

/** The files that a model keeps weights in: the names that it gives them, and where they are. */
function weightFiles(model: Model, path: string): { readonly path: string; readonly data: string }[] {
  const locations = new Set<string>();
  mapTensors(model, (tensor) => {
    if (tensor.external !== undefined) locations.add(tensor.external.location);
    return tensor;
  });
  return [...locations].map((location) => {
    if (isAbsolute(location) || normalize(location).startsWith(".."))
      throw new InsituError("external-data", `external data "${location}" lies outside the model's folder`);
    return { path: location, data: join(dirname(path), location) };
  });
}
