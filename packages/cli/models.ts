/** `insitu models`: what there is, what is here, what would fit this machine; and `insitu pull`, which fetches a model. */
import { bytesText } from "#insitu/base/bytes-text.js";
import { variantOrder } from "#insitu/hub/choose-files.js";
import type { CatalogueModel, CatalogueVariant, KeptModel } from "#insitu/hub/models-api.js";
import { nodePlatform } from "#insitu/platform/node.js";
import { modelsIn } from "#insitu/platform/node-models.js";
import type { Arguments, Command, CommandOption } from "./command.js";
import { FetchProgress } from "./fetch-progress.js";
import { Interrupt } from "./interrupt.js";
import { UsageError } from "./usage.js";

const cacheOption: CommandOption = {
  value: "folder",
  describes: "where models are stored (default: INSITU_CACHE, or ~/.cache/insitu)",
};

const fetchOptions: Readonly<Record<string, CommandOption>> = {
  cache: cacheOption,
  variant: { value: "name", describes: "which ONNX file: q4 (default), q4f16, q8, fp16, fp32, …" },
  revision: { value: "name", describes: "a branch, tag or commit (default: main)" },
};

/** Lists, fetches and removes models. */
export const models: Command = {
  name: "models",
  positionals: "[pull name… | remove name[@revision]…]",
  arity: [0, 64],
  summary: "lists models: short names, what is downloaded, what fits; pull downloads one, remove deletes one",
  options: {
    ...fetchOptions,
    all: { describes: "also models that do not fit this machine" },
    json: { describes: "downloaded models as JSON: [{ name, revision, folder, bytes, complete }]" },
    catalogue: { describes: "with --json: the models that have a short name instead" },
  },
  async run(args) {
    const { options, positionals } = args;
    const [action, ...names] = positionals;
    const own = modelsIn(textOf(options, "cache"));
    if (action === undefined || (action === "list" && names.length === 0)) {
      const kept = await own.list();
      const { place } = await own.storage();
      if (options["json"] === true)
        console.log(JSON.stringify(options["catalogue"] === true ? own.catalogue : kept, null, 2));
      else console.log([hereText(kept, place), "", thereText(own.catalogue, kept, options["all"] === true)].join("\n"));
      return 0;
    }
    if (action === "pull" && names.length > 0) return pullAll(names, options);
    if (action !== "remove" || names.length === 0)
      throw new UsageError(
        "insitu models lists models; insitu models pull <name> downloads one, insitu models remove <name> deletes it",
      );
    for (const name of names)
      for (const each of await own.remove(name))
        console.log(`removed ${each.name}@${each.revision}, ${bytesText(each.bytes)}`);
    return 0;
  },
};

/** Fetches models, and runs nothing. */
export const pull: Command = {
  name: "pull",
  positionals: "name…",
  arity: [1, 64],
  summary: "downloads a model by its short name or owner/name, for use offline",
  options: fetchOptions,
  run: ({ positionals, options }) => pullAll(positionals, options),
};

const textOf = (options: Arguments["options"], name: string): string | undefined => {
  const text = options[name];
  return typeof text === "string" ? text : undefined;
};

async function pullAll(names: readonly string[], options: Arguments["options"]): Promise<number> {
  const own = modelsIn(textOf(options, "cache"));
  const [variant, revision] = [textOf(options, "variant"), textOf(options, "revision")];
  const interrupt = new Interrupt();
  const progress = new FetchProgress();
  try {
    for (const name of names) {
      const kept = await interrupt.during(
        own.pull(name, {
          ...(variant === undefined ? {} : { variant }),
          ...(revision === undefined ? {} : { revision }),
          signal: interrupt.signal,
          onPlan: (plan) => progress.plan(plan),
          onProgress: (of) => progress.tell(of),
        }),
      );
      progress.close();
      console.log(`${kept.name} is in ${kept.folder}, ${bytesText(kept.bytes)}`);
    }
  } finally {
    progress.close();
    interrupt.forget();
  }
  return 0;
}

function hereText(kept: readonly KeptModel[], place: string): string {
  if (kept.length === 0) return `no models are stored in ${place}; insitu pull <name> downloads one`;
  const rows = kept.map(({ name, revision, bytes, complete }) => [
    revision === "main" ? name : `${name}@${revision}`,
    bytesText(bytes),
    complete.length === 0 ? "not whole yet" : complete.map((variant) => variant || "as it comes").join(", "),
  ]);
  const total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
  return [...table(rows), `${bytesText(total)} in ${place}`].join("\n");
}

/** The catalogue: those that this machine's memory holds, the smallest first. */
function thereText(catalogue: readonly CatalogueModel[], kept: readonly KeptModel[], all: boolean): string {
  const memory = nodePlatform.memoryBytes;
  const rows = catalogue
    .map((model) => ({ model, variant: defaultVariant(model), fits: fits(defaultVariant(model), memory) }))
    .toSorted((a, b) => a.variant.bytes - b.variant.bytes)
    .filter(({ fits: does }) => all || does);
  const lines = rows.map(({ model, variant, fits: does }) => [
    model.name,
    `${variant.approximate === true ? "~" : ""}${bytesText(variant.bytes)}`,
    variant.name,
    model.licence,
    [...(model.tools ? ["tools"] : []), ...(model.thinking ? ["thinking"] : [])].join(", "),
    kept.some(({ name, complete }) => name === model.repository && complete.length > 0)
      ? "here"
      : does
        ? ""
        : "too large for this machine",
  ]);
  const left = catalogue.length - rows.length;
  return [
    memory === undefined
      ? "by short name:"
      : `by short name, for ${bytesText(memory)} of memory (~ estimated from parameters):`,
    ...table(lines),
    ...(left === 0 ? [] : [`${left} more would not fit this machine: --all lists them`]),
    "insitu chat smollm2-135m talks with one; insitu check <name> shows how one would run; owner/name is any other model on the hub",
  ].join("\n");
}

/** The variant that is taken where nobody names one. */
function defaultVariant({ variants }: CatalogueModel): CatalogueVariant {
  const order = variantOrder(false);
  return order.flatMap((name) => variants.filter((variant) => variant.name === name)).at(0) ?? variants[0];
}

/** True if weights, caches and the process fit into a memory: caches and values in between are taken for a quarter of the weights. */
const fits = ({ bytes }: CatalogueVariant, memory: number | undefined): boolean =>
  memory === undefined || 1.25 * bytes + 300e6 <= memory;

/** Columns side by side; the second is numbers. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column].length))) ?? [];
  return rows.map((row) =>
    row
      .map((text, column) => (column === 1 ? text.padStart(widths[column]) : text.padEnd(widths[column])))
      .join("  ")
      .trimEnd(),
  );
}
