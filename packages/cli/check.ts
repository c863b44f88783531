/** `insitu check`: one page about a model that is not loaded: whether it runs, how, in which memory, how fast. */
import { bytesText } from "#insitu/base/bytes-text.js";
import type { Command } from "./command.js";
import { checkModel, type CheckReport } from "./check-report.js";
import { openChecked } from "./check-source.js";
import { memoryForecastText } from "./inspect-memory.js";
import { numberOf } from "./language-model.js";
import { UsageError } from "./usage.js";

/** Tells of a model without its weights. */
export const check: Command = {
  name: "check",
  positionals: "<folder | model.onnx | owner/name | short name>",
  arity: [1, 1],
  summary: "shows whether and how a model would run, before its weights are downloaded",
  options: {
    variant: {
      value: "name",
      describes: "which ONNX file: q4 is onnx/model_q4.onnx (default on the hub: 4 bits)",
    },
    revision: { value: "name", describes: "a branch, tag or commit on the hub (default: main)" },
    context: {
      value: "N",
      describes: "the context window to compute memory for, in tokens (default: that of generate)",
    },
    gpu: { describes: "take the variant that a GPU would" },
    json: {
      describes: "everything as JSON: { runs, problems, files, operators, kernels, caches, pages, memory, speed, … }",
    },
  },
  async run({ positionals: [given], options }) {
    const { variant, revision } = options;
    const context = numberOf(options, "context");
    if (context !== undefined && !(Number.isSafeInteger(context) && context >= 2))
      throw new UsageError(`--context must be a whole number from 2 on, got ${context}`);
    const source = await openChecked(
      given,
      {
        ...(typeof variant === "string" ? { variant } : {}),
        ...(typeof revision === "string" ? { revision } : {}),
      },
      options["gpu"] === true,
    );
    const report = await checkModel(source, context);
    console.log(options["json"] === true ? JSON.stringify(report, null, 2) : reportText(report));
    return report.runs ? 0 : 1;
  },
};

/** The report as a page. */
function reportText(report: CheckReport): string {
  const { name, variant, architecture, producer, files, bytes, problems, madeFor, hasChatTemplate } = report;
  const about = [
    ...(architecture === undefined ? [] : [architecture]),
    ...(producer === "" ? [] : [`made by ${producer}`]),
    ...(madeFor === undefined ? [] : [`for ${madeFor} tokens`]),
    hasChatTemplate ? "with a chat template" : "without a chat template",
  ];
  const listed = files.map(({ path, bytes: size }) => `  ${path}, ${size === null ? "not there" : bytesText(size)}`);
  return [
    `${name}${variant === undefined ? "" : `, ${variant}`}: ${report.runs ? "runs" : "does not run"}`,
    ...problems.map((problem) => `  ${problem}`),
    about.join(", "),
    `files: ${bytesText(bytes)}`,
    ...listed,
    ...operatorLines(report),
    ...cacheLines(report),
    ...(report.memory === undefined ? [] : [memoryForecastText(report.memory, false)]),
    ...speedLines(report),
  ].join("\n");
}

function operatorLines({ operators, kernels = [], roundedProducts = 0 }: CheckReport): string[] {
  if (operators === undefined) return [];
  const counts = Object.entries(operators).map(([name, count]) => `${name} ${count}`);
  return [
    `operators, once it is prepared: ${counts.join(", ")}`,
    ...kernels.map(({ backend, kernels: done, reference }) => {
      if (done === 0) return `  ${backend}: not known without sizes`;
      // What the host does with its own small numbers costs nothing.
      const slow = reference.flatMap(({ operator, steps, reason }) =>
        /on the host/.test(reason) ? [] : [`${operator} ${steps} (${reason})`],
      );
      return `  ${backend}: kernels do ${done} steps of a token${slow.length === 0 ? ", all there are" : `; the reference implementation does ${slow.join(", ")}`}`;
    }),
    ...(roundedProducts === 0
      ? []
      : [`  ${roundedProducts} of them round activations to 8 bits (--activations float does not)`]),
  ];
}

function cacheLines({ caches, pages, drawsOnDevice }: CheckReport): string[] {
  if (caches === undefined) return [];
  const how = caches.rewritten ? " (the model is rewritten when it is loaded)" : "";
  const told = ({ possible, reason }: { possible: boolean; reason?: string }): string =>
    possible ? "yes" : `no: ${reason}`;
  return [
    `caches: ${caches.inPlace} of ${caches.count} updates in place${how}`,
    ...caches.resisting.map(({ input, node, reason }) => `  ${input}, at ${node}: ${reason}`),
    ...(caches.notRewritten === undefined ? [] : [`  not rewritten: ${caches.notRewritten}`]),
    ...(pages === undefined ? [] : [`pages (insitu serve, cache: "paged"): ${told(pages)}`]),
    ...(drawsOnDevice === undefined ? [] : [`tokens drawn on the device: ${told(drawsOnDevice)}`]),
  ];
}

function speedLines({ speed }: CheckReport): string[] {
  if (speed === undefined) return [];
  const width = Math.max(...speed.expected.map(({ memory }) => memory.length));
  return [
    `a token reads ${bytesText(speed.bytesPerToken)}; at ${100 * speed.share} % of a memory's stated speed, and 0.3 ms for its steps:`,
    ...speed.expected.map(
      ({ memory, bytesPerSecond, tokensPerSecond }) =>
        `  ${memory.padEnd(width)}  ${String(bytesPerSecond / 1e9).padStart(6)} GB/s  ${String(tokensPerSecond).padStart(8)} tokens a second`,
    ),
  ];
}
