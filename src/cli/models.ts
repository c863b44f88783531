/** `insitu models`: what was fetched from the hub, how much room it takes, and its removal. */
import { bytesText } from "../base/bytes-text.js";
import { type KeptModel, keptFolder, keptModels, removeModel } from "../hub/kept-models.js";
import type { Command } from "./command.js";
import { UsageError } from "./usage.js";

/** Lists and removes the models that are kept. */
export const models: Command = {
  name: "models",
  positionals: "[remove owner/name[@revision]…]",
  arity: [0, 64],
  summary: "lists the models that were fetched from the hub; remove owner/name deletes one",
  options: {
    cache: { value: "folder", describes: "where models are kept: INSITU_CACHE, or .cache/insitu in the home folder" },
    json: { describes: "the list as JSON: [{ name, revision, folder, bytes, complete }]" },
  },
  async run({ positionals: [action, ...names], options }) {
    const cache = typeof options["cache"] === "string" ? options["cache"] : keptFolder();
    if (action === undefined || (action === "list" && names.length === 0)) {
      const kept = keptModels(cache);
      console.log(options["json"] === true ? JSON.stringify(kept, null, 2) : listText(kept, cache));
      return 0;
    }
    if (action !== "remove" || names.length === 0)
      throw new UsageError("insitu models lists what is kept; insitu models remove owner/name lets go of a model");
    for (const name of names) {
      const [model, revision] = name.split(/@(.*)/s);
      for (const each of await removeModel(model, revision, cache))
        console.log(`removed ${each.name}@${each.revision}, ${bytesText(each.bytes)}`);
    }
    return 0;
  },
};

function listText(kept: readonly KeptModel[], cache: string): string {
  if (kept.length === 0) return `no models are kept in ${cache}; --model owner/name fetches one`;
  const rows = kept.map(({ name, revision, bytes, complete }) => [
    revision === "main" ? name : `${name}@${revision}`,
    bytesText(bytes),
    complete.length === 0 ? "not whole yet" : complete.map((variant) => variant || "as it comes").join(", "),
  ]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column].length)));
  const total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
  return [
    ...rows.map(([name, size, variants]) => `${name.padEnd(widths[0])}  ${size.padStart(widths[1])}  ${variants}`),
    `${bytesText(total)} in ${cache}`,
  ].join("\n");
}
