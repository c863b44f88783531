/** `insitu bench serve --backend webgpu`: its options, and what is printed. */
import { deviceServeText } from "../bench/serve-device/print.js";
import { agrees, runDeviceServeBench } from "../bench/serve-device/run.js";
import type { Arguments, CommandOption } from "#insitu/cli/command.js";
import { UsageError } from "#insitu/cli/usage.js";

/** The options that this load has beside those of all servers. */
export const serveDeviceOptions: Readonly<Record<string, CommandOption>> = {
  model: {
    value: "folder",
    describes: "serve on webgpu: a model of your own, in the hub's layout (one with random weights is made)",
  },
  context: { value: "N", describes: "serve on webgpu: the server's --context (8192)" },
  blocks: { value: "N", describes: "serve on webgpu: the server's --blocks (6000)" },
  "max-running": { value: "N", describes: "serve on webgpu: the server's --max-running (64)" },
};

/** Options of the other loads of servers, which say nothing here. */
const foreign = ["concurrency", "rate", "requests", "url", "targets", "threads", "svg"];

/** Measures a server on a GPU. */
export async function benchServeDevice(
  options: Arguments["options"],
  onProgress: (text: string) => void,
): Promise<number> {
  const other = foreign.find((name) => options[name] !== undefined);
  if (other !== undefined)
    throw new UsageError(
      `insitu bench serve --backend webgpu: --${other} is an option of the load without a GPU, got "${options[other]}"; leave it out`,
    );
  const text = (name: string): string | undefined => {
    const value = options[name];
    return typeof value === "string" ? value : undefined;
  };
  const count = (name: string): number | undefined => {
    const given = text(name);
    if (given === undefined) return undefined;
    if (Number.isInteger(Number(given)) && Number(given) >= 1) return Number(given);
    throw new UsageError(`insitu bench serve: --${name} must be a whole number from 1 on, got "${given}"`);
  };
  const sized = { context: count("context"), blocks: count("blocks"), maxRunning: count("max-running") };
  const report = await runDeviceServeBench({
    program: [process.execPath, ...process.execArgv, process.argv[1]],
    command: commandOf(options),
    backend: "webgpu",
    model: text("model"),
    server: Object.fromEntries(Object.entries(sized).filter(([, value]) => value !== undefined)),
    only: text("only"),
    rounds: count("repeats"),
    alone: options["alone"] === true,
    small: options["quick"] === true || options["sizes"] === "small",
    onProgress,
  });
  console.log(options["json"] === true ? JSON.stringify(report, null, 2) : deviceServeText(report));
  const failed = report.rows.find(({ runtime, errors }) => runtime === "insitu" && errors > 0);
  if (failed !== undefined) console.error(`insitu: ${failed.who}, ${failed.load}: ${failed.firstError}`);
  const wrong = report.agreement.find((each) => each.runtime === "insitu" && !agrees(each));
  if (wrong !== undefined)
    console.error(
      `insitu: ${wrong.who} chooses the next token of only ${wrong.same} prompts of ${wrong.compared} as generate does`,
    );
  return failed === undefined && wrong === undefined ? 0 : 1;
}

const commandOf = (options: Arguments["options"]): string =>
  [
    "npx insitu bench serve",
    ...["backend", "model", "context", "blocks", "max-running", "only", "repeats", "sizes", "alone", "quick"].flatMap(
      (name) => {
        const value = options[name];
        if (value === undefined) return [];
        if (value === true) return [`--${name}`];
        return [`--${name}`, /^[\w./-]+$/.test(String(value)) ? String(value) : `"${value}"`];
      },
    ),
  ].join(" ");
