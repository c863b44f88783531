/** Which models `insitu serve` serves: their names, where they are, which stay, and what is told of them. */
import { basename, dirname } from "node:path";
import { bytesText } from "#insitu/base/bytes-text.js";
import type { BackendName } from "#insitu/entry/backends.js";
import { EmbeddingModel } from "#insitu/entry/embedding-node.js";
import type { CausalLM } from "#insitu/entry/node.js";
import { bytesOf } from "#insitu/serve/served-models.js";
import type { ModelSource } from "#insitu/serve/server.js";
import { UsageError } from "./usage.js";

/** A model as it was named on the command line: where it is, or undefined for the embedded one. */
interface NamedModel {
  readonly name: string;
  readonly model: string | undefined;
}

/** Reads `--model` in all its forms: a place, or a name and a place. */
export function namedModels(given: readonly string[]): readonly NamedModel[] {
  const named = (given.length === 0 ? ["embedded"] : given).map((each): NamedModel => {
    const [, name, place] = /^([\w.:-]+)=(.+)$/.exec(each) ?? [undefined, undefined, each];
    const model = place === "embedded" ? undefined : place;
    return { name: name ?? (model === undefined ? "embedded" : nameOf(model)), model };
  });
  const twice = named.find(({ name }, at) => named.findIndex((each) => each.name === name) < at);
  if (twice !== undefined)
    throw new UsageError(
      `two models are called ${twice.name}: name one of them, as in --model other=${twice.model ?? "embedded"}`,
    );
  return named;
}

/** The folder's name for a path, all of it for a model of the hub. */
function nameOf(model: string): string {
  if (/^[\w.-]+\/[\w.-]+$/.test(model) && !model.startsWith(".") && !model.endsWith(".onnx")) return model;
  const folder = model.endsWith(".onnx") ? dirname(model) : model;
  return basename(basename(folder) === "onnx" ? dirname(folder) : folder);
}

/** `--pin name`, as many as there are. */
export function pinnedOf(given: readonly string[], named: readonly NamedModel[]): readonly string[] {
  const wrong = given.find((each) => !named.some(({ name }) => name === each));
  if (wrong === undefined) return given;
  throw new UsageError(`--pin ${wrong}: there is no such model; there are ${named.map(({ name }) => name).join(", ")}`);
}

/** Models that are loaded when they are asked for; those in `pinned` at once, and for good. */
export function sourcesOf(
  named: readonly NamedModel[],
  pinned: readonly string[],
  load: (model: string | undefined, memoryLimit: number | undefined) => Promise<CausalLM>,
): readonly ModelSource[] {
  return named.map(({ name, model }) => ({ name, pinned: pinned.includes(name), load: (limit) => load(model, limit) }));
}

/** Loads embedding models, by their names. */
export async function loadEmbedders(
  named: readonly NamedModel[],
  backend: string | undefined,
): Promise<Readonly<Record<string, EmbeddingModel>>> {
  const loaded: Record<string, EmbeddingModel> = {};
  const settings = backend === undefined ? {} : { backend: backend as BackendName };
  for (const { name, model } of named) {
    if (model === undefined) throw new UsageError("--embeddings: the embedded model does not output its hidden state");
    loaded[name] = await EmbeddingModel.load(model, settings);
  }
  return loaded;
}

/** `--alias other=name`, as many as there are. */
export function aliasesOf(given: readonly string[], named: readonly NamedModel[]): Readonly<Record<string, string>> {
  const entries = given.map((each) => {
    const [, alias, name] = /^([^=]+)=(.+)$/.exec(each) ?? [];
    if (alias === undefined || name === undefined) throw new UsageError(`--alias must be other=name, got "${each}"`);
    if (!named.some((known) => known.name === name))
      throw new UsageError(
        `--alias ${each}: no model is called ${name}; there are ${named.map((known) => known.name).join(", ")}`,
      );
    if (alias !== name && named.some((known) => known.name === alias))
      throw new UsageError(`--alias ${each}: ${alias} is a model itself; call it otherwise, as in --model other=place`);
    return [alias, name] as const;
  });
  return Object.fromEntries(entries);
}

/** Bytes as people write them: 8GiB, 512MB, 1e9. */
export function bytesOption(name: string, given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const [, number, unit = ""] = /^([\d.e+]+)\s*([kmgt]?)(?:i?b)?$/i.exec(given.trim()) ?? [];
  const bytes = Number(number) * 1024 ** " kmgt".indexOf(unit.toLowerCase() || " ");
  if (!(bytes > 0)) throw new UsageError(`--${name} must be a number of bytes, such as 8GiB, got "${given}"`);
  return Math.floor(bytes);
}

/** What a server tells once it is there. */
export function servedText(named: readonly NamedModel[], lm: CausalLM | undefined, address: string): string {
  const clients = `open ${address} in a browser, or give clients the base URL ${address}/v1`;
  if (lm === undefined)
    return `models, loaded when they are asked for: ${named.map(({ name }) => name).join(", ")}\n${clients}`;
  const facts = [
    `context ${lm.contextLength} tokens`,
    `backend ${lm.session.backend}`,
    `memory ${bytesText(bytesOf(lm))}`,
  ];
  return `model ${named[0].name}: ${facts.join(", ")}\n${clients}`;
}
