/**
 * genai_config.json, which onnxruntime-genai keeps beside a model in place of config.json and generation_config.json: read in the words of those two,
 * with the names of the files. Opens nothing.
 */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { HeadFile } from "#insitu/heads/draft-head.js";
import type { Json } from "./model-folder.js";

/** What the file says. */
export interface GenaiConfig {
  /** The decoder's ONNX file, below the folder. */
  readonly decoder: string | undefined;
  /** The ONNX file that makes embeddings of tokens, where that is one of its own. */
  readonly embedding: string | undefined;
  /** What config.json would say. */
  readonly config: Json;
  /** What generation_config.json would say. */
  readonly generationConfig: Json;
  /** What guesses for the decoder, and the names of what it reads and hands on. */
  readonly head: (HeadFile & { readonly file: string }) | undefined;
  /** Rotary tables for short texts end at this row, and those for longer ones begin there, where both lie in one. */
  readonly rotaryOffset: number | undefined;
}

/** Reads the file; `path` is for messages. */
export function readGenaiConfig(json: Json, path: string): GenaiConfig {
  const refuse = (why: string): never => {
    throw new InsituError("invalid-model", `${path}: ${why}`);
  };
  const part = (of: Json, name: string, where = name): Json => {
    const given = of[name] ?? {};
    return isObject(given) ? given : refuse(`${where} must be an object, got ${valueText(given)}`);
  };
  const count = (of: Json, name: string, where: string): number | undefined => {
    const given = of[name];
    if (given === undefined || given === null) return undefined;
    if (Number.isSafeInteger(given) && (given as number) >= 2) return given as number;
    return refuse(`${where}${name} must be a whole number from 2 on, got ${valueText(given)}`);
  };
  const file = (of: Json, where: string): string | undefined => {
    const name = of["filename"];
    if (name === undefined) return undefined;
    if (typeof name === "string" && /\.onnx$/i.test(name) && !/^[\\/]|:|(^|[\\/])\.\.([\\/]|$)/.test(name)) return name;
    return refuse(`${where}.filename must name an ONNX file below the folder, got ${valueText(name)}`);
  };
  const model = part(json, "model");
  const search = part(json, "search");
  const decoder = part(model, "decoder", "model.decoder");
  if ((decoder["pipeline"] ?? undefined) !== undefined)
    refuse(
      "model.decoder.pipeline has the decoder in several files that run in turn, which insitu does not support: take a model in one file",
    );
  if ((model["encoder"] ?? undefined) !== undefined)
    refuse(
      "it has an encoder, and CausalLM runs decoders alone; transformers.js runs such models with insitu/onnxruntime",
    );
  // Prompt and text together may have max_length tokens, whatever the model was made for; 0 is as many as that.
  const most = search["max_length"] === 0 ? undefined : count(search, "max_length", "search.");
  const headOf = (mtp: Json): GenaiConfig["head"] => {
    const own = file(mtp, "model.mtp");
    if (own === undefined || mtp["enabled"] === false) return undefined;
    const named = (of: Json, name: string): string | undefined => (typeof of[name] === "string" ? of[name] : undefined);
    const outputs = part(decoder, "outputs", "model.decoder.outputs");
    return {
      file: own,
      reads: named(mtp, "main_hidden_states") ?? named(outputs, "hidden_states"),
      hidden: named(part(mtp, "inputs", "model.mtp.inputs"), "hidden_states"),
      feedback: named(part(mtp, "outputs", "model.mtp.outputs"), "hidden_states"),
    };
  };
  const lengths = [count(model, "context_length", "model."), most];
  const known = lengths.filter((length) => length !== undefined);
  const eos = model["eos_token_id"];
  return {
    decoder: file(decoder, "model.decoder"),
    embedding: file(part(model, "embedding", "model.embedding"), "model.embedding"),
    head: headOf(part(model, "mtp", "model.mtp")),
    config: withoutGaps({
      model_type: model["type"],
      vocab_size: model["vocab_size"],
      bos_token_id: model["bos_token_id"],
      eos_token_id: eos,
      pad_token_id: model["pad_token_id"],
      max_position_embeddings: known.length === 0 ? undefined : Math.min(...known),
      hidden_size: decoder["hidden_size"],
      num_hidden_layers: decoder["num_hidden_layers"],
      num_attention_heads: decoder["num_attention_heads"],
      num_key_value_heads: decoder["num_key_value_heads"],
      head_dim: decoder["head_size"],
    }),
    generationConfig: withoutGaps({
      eos_token_id: eos,
      do_sample: search["do_sample"],
      temperature: search["temperature"],
      top_k: search["top_k"],
      // As onnxruntime-genai has it, 0 leaves all tokens.
      top_p: search["top_p"] === 0 ? undefined : search["top_p"],
      repetition_penalty: search["repetition_penalty"],
    }),
    rotaryOffset: rotaryOffsetOf(part(decoder, "session_options", "model.decoder.session_options")),
  };
}

/** What providers are told of tables that lie one behind the other. */
function rotaryOffsetOf(options: Json): number | undefined {
  const providers: unknown = options["provider_options"];
  if (!Array.isArray(providers)) return undefined;
  for (const provider of providers as readonly unknown[])
    for (const given of isObject(provider) ? Object.values(provider) : []) {
      const offset = isObject(given)
        ? (given["multiRotaryCacheConcatOffset"] ?? given["multi_rotary_cache_concat_offset"])
        : undefined;
      const rows = Number(offset ?? 0);
      if (Number.isSafeInteger(rows) && rows > 0) return rows;
    }
  return undefined;
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const withoutGaps = (given: Json): Json =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null));
