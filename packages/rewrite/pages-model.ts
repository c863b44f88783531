/**
 * Model → Model: caches that TensorScatter writes and Attention reads become pages. Each layer's two TensorScatters become one write to
 * the slots of `slot_mapping`, its Attention reads the pages of `block_tables`, `seq_lens` rows of them. What cannot be paged is refused
 * by name.
 */
import { InsituError } from "#insitu/base/error.js";
import { type AttributeInput, float, node as makeNode, value as makeValue } from "#insitu/onnx/build.js";
import type { Model, ModelAttribute, ModelNode, ModelValue } from "#insitu/onnx/model.js";
import type { ElementType } from "#insitu/tensor/element-type.js";
import { ModelEdit, readsOf } from "./model-edit.js";
import { packedInput, type PageLayout, pageInputs, type PagesOptions, stateInput, sumsName } from "./page-names.js";
import { type CacheTrail, isCacheAttention, type LayoutStep, ModelReader } from "./page-trail.js";
import { poolStates, statesOf } from "./pooled-states.js";

const domain = "insitu";

/** The attributes that both attentions have, with the same meaning. */
const keptAttributes = ["is_causal", "scale", "softcap", "left_window_size", "right_window_size"];

/** True for what keys and values are fed as. */
const hasRows = (type: ModelValue["type"]): boolean => type?.kind === "tensor" && (type.shape?.length ?? 0) > 2;

/** The model on pages. Throws `invalid-graph`, naming node and reason, for what cannot be paged. */
export function pageModel(model: Model, options: PagesOptions = {}): Model {
  const states = statesOf(model);
  if (states.size > 0 && (options.packed === true || options.perHead === true))
    throw new InsituError(
      "invalid-argument",
      `the model keeps "${[...states.keys()][0]}", a recurrent state, which reads the tokens of one sequence in one run: leave the options packed and perHead out`,
    );
  const reader = new ModelReader(model);
  const edit = new ModelEdit(model);
  const attentions = model.graph.nodes.filter(isCacheAttention);
  const trails = attentions.map((node) => ({ node, ...trailsOf(reader, node) }));
  const found = trails.find((trail) => trail.reason !== undefined);
  if (found?.reason !== undefined) throw refusal(found.node, found.reason);
  if (trails.length === 0)
    throw new InsituError(
      "invalid-graph",
      states.size > 0 && model.graph.inputs.every(({ name, type }) => states.has(name) || !hasRows(type))
        ? `the model has recurrent states alone ("${[...states.keys()][0]}"), and no rows that pages could hold: use linear caches`
        : "the model has no Attention whose keys and values TensorScatter writes: rewrite it first (insitu rewrite)",
    );
  const tokens = model.graph.inputs.find(({ name }) => name === "input_ids")?.type;
  const first = tokens?.kind === "tensor" ? tokens.shape?.[0] : undefined;
  if (typeof first === "number")
    throw new InsituError(
      "invalid-graph",
      `input "input_ids" has a batch of ${first}, and pages are read by as many texts as there are: use linear caches, or export the model with a dynamic batch`,
    );
  const packed = options.packed === true;
  for (const name of [
    ...Object.values(pageInputs),
    ...(packed ? [packedInput] : []),
    ...(states.size > 0 ? [stateInput] : []),
  ])
    if (edit.isTaken(name))
      throw new InsituError(
        "invalid-graph",
        `the model has a value "${name}" already: it cannot get an input of that name`,
      );
  const outputs: ModelValue[] = [];
  const written = new Set<string>();
  // Named as the caches named it, so that it is known to be the tokens' own; in a packed batch there are fewer sequences than tokens.
  const batch = packed ? "sequences" : (trails[0].keys!.batch ?? "batch");
  let heads: number | undefined;
  trails.forEach(({ node, keys, values }, layer) => {
    const pages = new LayerPages(edit, keys!, values!, options);
    if (!written.has(keys!.present)) outputs.push(...pages.write());
    else if (!pages.isOwn(written))
      throw refusal(node, `it reads "${keys!.present}" and "${values!.present}", which are written apart`);
    for (const cache of [keys!, values!]) written.add(cache.present);
    outputs.push(...pages.read(node, layer));
    if (options.perHead === true && heads !== undefined && heads !== keys!.heads)
      throw refusal(
        node,
        `it has ${keys!.heads} key/value heads, the one before ${heads}: per-head tables must fit all layers`,
      );
    heads = keys!.heads;
  });
  const caches = new Set(
    trails.flatMap(({ keys, values }) => [keys!.past, values!.past, keys!.present, values!.present]),
  );
  for (const node of model.graph.nodes)
    if (caches.has(node.inputs[0])) takeBatchFrom(edit, node, packed ? "input_ids" : pageInputs.tables);
  const perHead = options.perHead === true ? [heads] : [];
  edit.addInput(makeValue(pageInputs.slots, "int64", ["tokens"]));
  edit.addInput(makeValue(pageInputs.tables, "int64", [batch, ...perHead, "columns"]));
  edit.addInput(makeValue(pageInputs.lengths, "int64", [batch, ...perHead]));
  if (packed) edit.addInput(makeValue(packedInput, "int64", ["starts"]));
  const changed = edit.finish();
  checkReaders(changed, caches);
  const stale = new Set([...written, ...changed.graph.outputs.map(({ name }) => name)]);
  const paged: Model = {
    ...changed,
    graph: {
      ...changed.graph,
      outputs: [...changed.graph.outputs, ...outputs],
      valueInfo: changed.graph.valueInfo.filter(({ name }) => !stale.has(name)),
    },
  };
  return poolStates(paged, states, String(batch));
}

/** The caches that an Attention reads, or why they cannot be paged. */
function trailsOf(
  reader: ModelReader,
  node: ModelNode,
): { readonly keys?: CacheTrail; readonly values?: CacheTrail; readonly reason?: string } {
  const [, key, value, mask, pastKey, , lengths] = node.inputs;
  if (mask)
    return {
      reason: `it reads a mask, "${mask}": pages know causality and windows as attributes only; rewrite the model as it was exported, with opset 25, where windows are attributes`,
    };
  if (pastKey) return { reason: `its cache grows ("${pastKey}"): rewrite it first` };
  if (!lengths) return { reason: "it has no nonpad_kv_seqlen: nothing says how many rows are valid" };
  if (node.outputs[3]) return { reason: `its scores are needed ("${node.outputs[3]}")` };
  const count = intOf(node.attributes.get("kv_num_heads"));
  const [keys, values] = [reader.trailOf(key, count), reader.trailOf(value, count)];
  if (typeof keys === "string") return { reason: keys };
  if (typeof values === "string") return { reason: values };
  if (keys.past === values.past)
    return {
      reason: `"${keys.past}" is both its keys and its values: pages are for two caches; write values into one of their own`,
    };
  return { keys, values };
}

const refusal = (node: ModelNode, reason: string): InsituError =>
  new InsituError("invalid-graph", `Attention "${node.name || node.outputs[0]}" cannot read pages: ${reason}`);

/** The two caches of a layer. */
class LayerPages {
  readonly #edit: ModelEdit;
  readonly #keys: CacheTrail;
  readonly #values: CacheTrail;
  readonly #layout: PageLayout;
  readonly #perHead: boolean;
  readonly #scores: boolean;
  readonly #packed: boolean;
  readonly #type: ElementType | undefined;

  constructor(edit: ModelEdit, keys: CacheTrail, values: CacheTrail, options: PagesOptions) {
    this.#edit = edit;
    this.#keys = keys;
    this.#values = values;
    this.#layout = options.layout ?? "NHSD";
    this.#perHead = options.perHead ?? false;
    this.#scores = options.scores ?? false;
    this.#packed = options.packed ?? false;
    this.#type = options.cacheType === undefined || options.cacheType === "same" ? undefined : options.cacheType;
  }

  /** True if both caches are written by one earlier layer. */
  isOwn(written: ReadonlySet<string>): boolean {
    return written.has(this.#keys.present) && written.has(this.#values.present);
  }

  /** Replaces the writes; the outputs that come beside the caches. */
  write(): ModelValue[] {
    const edit = this.#edit;
    const caches = [this.#keys, this.#values];
    const rows: string[] = [];
    const made = [...edit.attempt(() => rows.push(...caches.map((cache) => this.#rowsOf(cache))))];
    const scales =
      this.#type === undefined ? [] : caches.map(({ past, present }) => [`${past}.scale`, `${present}.scale`]);
    const [keys, values] = caches;
    // The plain write names this layout by its scatter_mode.
    const plain: Readonly<Record<string, AttributeInput>> = this.#layout === "NHSD" ? { scatter_mode: "NHSD" } : {};
    made.push(
      this.#type === undefined
        ? makeNode(
            "ScatterPaKvCache",
            [rows[0], keys.past, pageInputs.slots, rows[1], values.past],
            [keys.present, values.present],
            plain,
            { domain, name: keys.writer },
          )
        : makeNode(
            "QuantizedScatterPaKvCache",
            [rows[0], keys.past, scales[0][0], pageInputs.slots, rows[1], values.past, scales[1][0]],
            [keys.present, scales[0][1], values.present, scales[1][1]],
            { cache_mode: this.#layout },
            { domain, name: keys.writer },
          ),
    );
    edit.replaceBy(keys.present, made);
    edit.replaceBy(values.present, []);
    for (const cache of caches) {
      edit.changeInput(cache.past, this.#declared(cache.past, cache));
      edit.changeOutput(cache.present, this.#declared(cache.present, cache));
    }
    const heads = this.#perHead ? 1 : keys.heads;
    const scaleValue = (name: string): ModelValue => makeValue(name, "float32", ["num_blocks", "block_size", heads]);
    for (const [past] of scales) edit.addInput(scaleValue(past));
    return scales.map(([, present]) => scaleValue(present));
  }

  /** Replaces an Attention; the outputs that come with it. */
  read(node: ModelNode, layer: number): ModelValue[] {
    const [keys, values] = [this.#keys, this.#values];
    const attributes: Record<string, AttributeInput> = { cache_mode: this.#layout };
    for (const name of keptAttributes) {
      const attribute = node.attributes.get(name);
      if (attribute?.kind === "int") attributes[name] = attribute.value;
      if (attribute?.kind === "float") attributes[name] = float(attribute.value);
    }
    for (const name of ["q_num_heads", "kv_num_heads"]) {
      const count = intOf(node.attributes.get(name));
      if (count !== undefined) attributes[name] = count;
    }
    const scales = this.#type === undefined ? ["", ""] : [`${keys.present}.scale`, `${values.present}.scale`];
    const sink = node.inputs[7] ?? "";
    const optional = [...scales, this.#packed ? packedInput : "", sink];
    while (optional.at(-1) === "") optional.pop();
    const made = makeNode(
      "PagedAttention",
      [node.inputs[0], keys.present, values.present, pageInputs.tables, pageInputs.lengths, ...optional],
      [node.outputs[0], ...(this.#scores ? [sumsName(layer)] : [])],
      attributes,
      { domain, name: node.name },
    );
    this.#edit.replaceBy(node.outputs[0], [made]);
    return this.#scores ? [makeValue(sumsName(layer), "float32", [undefined, undefined, undefined])] : [];
  }

  /** The new rows as [tokens, heads, head size], or [tokens · heads, 1, head size]. */
  #rowsOf({ update, steps, packed, heads, headSize }: CacheTrail): string {
    const edit = this.#edit;
    let name = steps.reduce((from, step) => relay(edit, from, step), update);
    if (!packed) name = edit.node("Transpose", [name], { attributes: { perm: [0, 2, 1, 3] } });
    return edit.node("Reshape", [name, edit.integers(this.#perHead ? [-1, 1, headSize] : [-1, heads, headSize])]);
  }

  #declared(name: string, { type, heads: all, headSize }: CacheTrail): ModelValue {
    const heads = this.#perHead ? 1 : all;
    const inner = this.#layout === "Norm" ? ["block_size", heads] : [heads, "block_size"];
    return makeValue(name, this.#type ?? type, ["num_blocks", ...inner, headSize]);
  }
}

function relay(edit: ModelEdit, from: string, step: LayoutStep): string {
  return step.kind === "transpose"
    ? edit.node("Transpose", [from], { attributes: { perm: step.perm } })
    : edit.node("Reshape", [from, edit.integers(step.shape)]);
}

/** Pages have no batch: a Shape that takes it from a cache takes it from another input. */
function takeBatchFrom(edit: ModelEdit, node: ModelNode, input: string): void {
  const [start, end] = [intOf(node.attributes.get("start")) ?? 0, intOf(node.attributes.get("end"))];
  if (node.opType !== "Shape" || node.domain !== "" || start !== 0 || end !== 1) return;
  edit.replaceBy(node.outputs[0], [{ ...node, inputs: [input] }]);
}

/** Fails where something else still reads a cache: it would see pages. */
function checkReaders({ graph }: Model, caches: ReadonlySet<string>): void {
  for (const node of graph.nodes) {
    if (node.domain === domain) continue;
    for (const name of readsOf(node))
      if (caches.has(name))
        throw new InsituError(
          "invalid-graph",
          `cache "${name}" cannot lie in pages: ${node.opType} "${node.name || node.outputs[0]}" reads it as one piece`,
        );
  }
}

const intOf = (attribute: ModelAttribute | undefined): number | undefined =>
  attribute?.kind === "int" ? Number(attribute.value) : undefined;
