/** The changes that make a decoder's caches ones that are written in place: inputs, writers, attentions, and what depended on the old length. */
import { InsituError } from "#insitu/base/error.js";
import { isKnown, sameDim } from "#insitu/graph/dim.js";
import type { Value } from "#insitu/graph/graph.js";
import { value as makeValue } from "#insitu/onnx/build.js";
import type { Model, ModelDimension, ModelValue } from "#insitu/onnx/model.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import type { Analysis } from "./analysis.js";
import { names } from "./decoder-names.js";
import { emitAttention } from "./emit-attention.js";
import { emitMask, type MaskSources } from "./emit-mask.js";
import { ModelEdit, readsOf } from "./model-edit.js";
import type { AttentionReport, CacheReport } from "./report.js";
import { type Blame, Resolver, valuesByName } from "./resolve.js";
import { cacheAxis } from "./roles.js";
import { tablesOf } from "./rotary-tables.js";
import { chooseRows } from "./table-rows.js";
import type { Trail } from "./trail.js";

/** How a decoder is changed. */
interface DecoderOptions {
  readonly capacity: string | number;
  readonly keepMask: boolean;
  /** The opset has windows in Attention. */
  readonly windows: boolean;
  /** Positions may get a dimension for the samples where they had none. */
  readonly mayChangeRank: boolean;
}

/** A changed decoder, and the changes for the report. */
interface ChangedDecoder {
  readonly model: Model;
  readonly caches: readonly CacheReport[];
  readonly attentions: readonly AttentionReport[];
  readonly positions: readonly string[];
  /** The input with a dimension of new tokens, and that axis. */
  readonly tokens: { readonly name: string; readonly axis: number } | undefined;
  /** True if position_ids must be the rows' numbers (0, 1, 2, …), since the original model counted them itself. */
  readonly follows: boolean;
  /** Inputs with one column a row, and that axis. */
  readonly widened: ReadonlyMap<string, number>;
}

/** Changes a decoder whose caches are all understood; a blame where something else depends on the old length. */
export function changeDecoder(model: Model, analysis: Analysis, options: DecoderOptions): ChangedDecoder | Blame {
  return new DecoderEdit(model, analysis, options).run();
}

class DecoderEdit {
  readonly #model: Model;
  readonly #analysis: Analysis;
  readonly #options: DecoderOptions;
  readonly #edit: ModelEdit;
  readonly #widened = new Map<string, number>();
  #castPositions = false;
  /** True once something else was made of the positions than what the original made of its own. */
  #follows = false;

  constructor(model: Model, analysis: Analysis, options: DecoderOptions) {
    this.#model = model;
    this.#analysis = analysis;
    this.#options = options;
    this.#edit = new ModelEdit(model);
  }

  run(): ChangedDecoder | Blame {
    const { trails, attentions } = this.#analysis;
    this.#declareInputs();
    const caches = trails.map((trail) => this.#writeCache(trail));
    const reports = attentions.map((attention) => this.#attend(attention));
    const tables = tablesOf(this.#model);
    if (tables !== undefined)
      chooseRows(this.#edit, this.#model.graph.nodes, tables, valuesByName(this.#analysis.whole));
    const positions = this.#resolveRest();
    if ("value" in positions) return positions;
    const tokens = this.#tokens();
    const follows = this.#follows || attentions.some(({ parts }) => parts !== undefined);
    const [model, widened] = [this.#edit.finish(), this.#widened];
    return { model, caches, attentions: reports, positions, tokens, follows, widened };
  }

  #declared(name: string): ModelValue {
    return (
      this.#model.graph.inputs.find((value) => value.name === name) ??
      this.#model.graph.outputs.find((value) => value.name === name) ?? { name, metadata: new Map(), docString: "" }
    );
  }

  #shapeOf(name: string): readonly ModelDimension[] {
    const { type } = this.#declared(name);
    return (type?.kind === "tensor" ? type.shape : undefined) ?? [];
  }

  /** The input with a dimension of new tokens, and that axis. */
  #tokens(): { readonly name: string; readonly axis: number } | undefined {
    const { graph, trails, masks, counters, tokens } = this.#analysis;
    const left = new Set([...trails.map(({ past }) => past), ...masks, ...counters]);
    const read = new Set(graph.nodes.flatMap((node) => node.inputs));
    for (const value of graph.inputs) {
      if (left.has(value) || value.initializer !== undefined || !read.has(value)) continue;
      const axis = value.fact?.shape?.findIndex((dim) => sameDim(dim, tokens)) ?? -1;
      if (axis >= 0) return { name: value.name, axis };
    }
    return undefined;
  }

  #declareInputs(): void {
    const { trails } = this.#analysis;
    const [samples] = this.#shapeOf(trails[0].past.name);
    for (const name of [names.starts, names.lengths]) {
      if (this.#edit.isTaken(name))
        throw new InsituError(
          "invalid-graph",
          `the model already has a value "${name}": rename it, or rewrite the model it came from`,
        );
      this.#edit.addInput(makeValue(name, "int64", [samples]));
    }
    const tokens = this.#tokens();
    const columns = isKnown(this.#analysis.tokens)
      ? this.#analysis.tokens
      : tokens && this.#shapeOf(tokens.name)[tokens.axis];
    this.#declarePositions(samples, columns);
    for (const name of this.#pointless()) this.#edit.changeInput(name, undefined);
    for (const trail of trails) {
      // Sizes that the file names and the replaced operator fixed: what stands in its place does not tell them.
      const fixed = trail.past.fact?.shape;
      const shape = this.#shapeOf(trail.past.name)
        .map((dim, axis) => (fixed !== undefined && isKnown(fixed[axis]) ? fixed[axis] : dim))
        .with(cacheAxis(trail)!, this.#options.capacity);
      this.#edit.changeInput(trail.past.name, reshaped(this.#declared(trail.past.name), shape, trail.past));
      this.#edit.changeOutput(trail.present.name, reshaped(this.#declared(trail.present.name), shape, trail.past));
    }
  }

  /** Positions are an input of [batch, sequence]: the model's own where that is one for every token, a new one where not. */
  #declarePositions(samples: ModelDimension, columns: ModelDimension): void {
    const { graph, counters } = this.#analysis;
    const own = this.#model.graph.inputs.find(({ name }) => name === names.positions);
    if (own === undefined) {
      if (this.#edit.isTaken(names.positions))
        throw new InsituError(
          "invalid-graph",
          `the model has a value "${names.positions}" that is no input: rename it first`,
        );
      this.#edit.addInput(makeValue(names.positions, "int64", [samples, columns]));
      return;
    }
    const value = graph.inputs.find(({ name }) => name === names.positions);
    const isRead = value !== undefined && graph.nodes.some((node) => node.inputs.includes(value));
    if (!isRead || counters.includes(value))
      this.#edit.changeInput(own.name, {
        ...own,
        type: { kind: "tensor", elementType: "int64", shape: [samples, columns] },
      });
    else if (value.fact?.shape?.length === 2) {
      if (traitsOf(value.fact.type).kind === "integer" && value.fact.type !== "int64") this.#castPositions = true;
      // One row for all samples becomes one for each.
      if (value.fact.shape[0] === 1 && samples !== 1)
        this.#edit.changeInput(own.name, reshaped(own, [samples, columns], value));
    }
  }

  /** The positions as int64. */
  #positions(): string {
    if (!this.#castPositions) return names.positions;
    return this.#edit.atFront(() =>
      this.#edit.node("Cast", [names.positions], { attributes: { to: traitsOf("int64").code }, as: "positions" }),
    );
  }

  /** Inputs that nothing read, and that only said what write_indices and nonpad_kv_seqlen say now. */
  #pointless(): string[] {
    const { whole, counters, masks } = this.#analysis;
    const read = new Set(whole.nodes.flatMap((node) => node.inputs));
    return whole.inputs
      .filter((value) => !read.has(value) && value.initializer === undefined)
      .filter(
        (value) =>
          counters.includes(value) ||
          masks.includes(value) ||
          value.name === "cache_position" ||
          value.name === "attention_mask",
      )
      .map(({ name }) => name);
  }

  /** A size as a list of one number. */
  #size(name: string): string | undefined {
    const { tokens, samples, trails } = this.#analysis;
    const shape = (of: string, axis: number): string =>
      this.#edit.atFront(() => this.#edit.node("Shape", [of], { attributes: { start: axis, end: axis + 1 } }));
    if (name === "sequence" && isKnown(tokens)) return this.#edit.integers([tokens]);
    if (name === String(tokens)) {
      const input = this.#tokens();
      return input && shape(input.name, input.axis);
    }
    if (name === "batch" && isKnown(samples)) return this.#edit.integers([samples]);
    return name === String(samples) ? shape(trails[0].past.name, 0) : undefined;
  }

  /** Rows after the write. Padding behind a sample's tokens is written too; counted or not, queries see what is before them. */
  #lengths(): string {
    const edit = this.#edit;
    return edit.atFront(() => {
      const ends = edit.node("Add", [names.starts, this.#size("sequence")!], { as: "row_after_write" });
      return edit.node("Max", [names.lengths, ends], { as: "kv_length" });
    });
  }

  #writeCache(trail: Trail): CacheReport {
    const edit = this.#edit;
    const axis = cacheAxis(trail)!;
    const { name } = trail.writer;
    const named = name === "" || trail.kind === "attention" ? {} : { name };
    edit.replace(trail.present.name, () => {
      const rows = this.#rows(trail);
      edit.node("TensorScatter", [trail.past.name, rows, names.starts], {
        attributes: { axis },
        output: trail.present.name,
        ...named,
      });
    });
    return {
      input: trail.past.name,
      output: trail.present.name,
      from: trail.writer.op.name,
      node: named.name ?? trail.present.name,
      axis,
    };
  }

  /** New rows in the layout of the cache. */
  #rows(trail: Trail): string {
    const edit = this.#edit;
    const laid = (name: string, perm: readonly number[]): string =>
      perm.every((from, at) => from === at) ? name : edit.node("Transpose", [name], { attributes: { perm } });
    const write = this.#analysis.writes.get(trail);
    if (write !== undefined) {
      const { type } = trail.past.fact!;
      const same = write.rows.fact?.type === type;
      const rows = same
        ? write.rows.name
        : edit.node("Cast", [write.rows.name], { attributes: { to: traitsOf(type).code } });
      return laid(rows, write.perm);
    }
    const attention = this.#analysis.attentions.find(({ node }) => node === trail.writer)!;
    const isKeys = attention.keys.trail === trail;
    const parts = attention.parts!;
    const rows = isKeys ? parts.keys(edit, this.#positions()) : parts.values(edit, this.#positions());
    return laid(
      rows,
      trail.order.map((_, own) => trail.order.indexOf(own)),
    );
  }

  #attend(attention: Analysis["attentions"][number]): AttentionReport {
    const { mask, keys, values, node } = attention;
    const refuse = (reason: string): never => {
      throw new InsituError(
        "invalid-graph",
        `cache "${keys.trail.past.name}" cannot be rewritten: ${node.label}: ${reason}`,
      );
    };
    const { type } = attention.query;
    const held = keys.trail.past.fact!.type;
    // Caches that are wider than what is computed with are attended in their own type: nothing is lost by it.
    const widened = type === "float16" && held === "float32";
    if (values.trail.past.fact!.type !== held || (held !== type && !widened))
      refuse(`its queries are ${type}, its caches are ${held}: that takes a copy of the caches for every token`);
    const whole = widened
      ? { ...attention, query: { ...attention.query, type: held }, precision: undefined }
      : attention;
    if (!mask.causal && [keys, values].some(({ trail }) => trail.kind === "scatter"))
      refuse("its mask does not hide the rows of the cache that are not written yet");
    if (!isKnown(keys.headSize) || !isKnown(values.headSize)) refuse("the size of its heads is not known");
    const causal = mask.causal || this.#analysis.tokens === 1;
    // What attends with sinks is insitu's own, in every opset.
    const windows = (this.#options.windows || attention.sinks !== undefined) && causal;
    const built = emitMask(this.#edit, whole, this.#maskSources(this.#analysis.trails[0]), windows);
    if (typeof built === "object") return refuse(built.reason);
    // Causality and windows count back from the last row that was written; without them, what is valid is all that counts.
    const lengths = causal ? this.#lengths() : names.lengths;
    const window = windows ? mask.window : undefined;
    this.#edit.replace(attention.result.name, () =>
      emitAttention(
        this.#edit,
        { ...whole, mask: { ...mask, causal } },
        { lengths, mask: built, window, positions: this.#positions(), ...(widened ? { narrow: type } : {}) },
      ),
    );
    const words = [
      mask.causal ? "causal" : "all rows",
      ...(mask.window === undefined ? [] : [`window ${mask.window}`]),
      ...(mask.others.length === 0 ? [] : ["mask"]),
      ...(mask.bias === undefined ? [] : ["bias"]),
    ];
    return {
      node: node.name || attention.result.name,
      keys: keys.trail.past.name,
      values: values.trail.past.name,
      mask: words.join(", "),
    };
  }

  #maskSources(trail: Trail): MaskSources {
    const { masks, past, graph } = this.#analysis;
    const edit = this.#edit;
    const [kept] = this.#options.keepMask ? masks : [];
    if (kept !== undefined) this.#widen(kept, 1);
    const axis = cacheAxis(trail)!;
    // All caches have the same capacity: layers share what is built from it.
    return {
      capacity: () => edit.node("Shape", [trail.past.name], { attributes: { start: axis, end: axis + 1 } }),
      starts: names.starts,
      size: (name) => this.#size(name),
      padding: kept && { name: kept.name, type: kept.fact!.type },
      widen: (input, at) => this.#widen(input, at),
      reads: ({ name }) => {
        if (name === names.positions) this.#follows = true;
      },
      past,
      isInput: (value) => graph.inputs.includes(value),
    };
  }

  #widen(input: Value, axis: number): void {
    this.#widened.set(input.name, axis);
    const shape = this.#shapeOf(input.name).with(axis, this.#options.capacity);
    const [samples] = this.#shapeOf(this.#analysis.trails[0].past.name);
    const named = shape.map((dim, at) => (at === 0 && typeof dim !== "number" ? samples : dim));
    this.#edit.changeInput(input.name, reshaped(this.#declared(input.name), named, input));
  }

  /** Replaces what depends on the old length; the names that were replaced by positions. */
  #resolveRest(): readonly string[] | Blame {
    const { masks, counters, whole, trails } = this.#analysis;
    const sources = {
      positions: () => {
        this.#follows = true;
        return this.#positions();
      },
      size: (name: string) => this.#size(name),
    };
    const resolver = new Resolver(
      this.#analysis,
      this.#edit,
      sources,
      [...masks, ...counters],
      this.#options.mayChangeRank,
    );
    const values = valuesByName(whole);
    const skipped = new Set([...whole.inputs, ...trails.map(({ present }) => present)].map(({ name }) => name));
    // Outputs, and what the new nodes read.
    const { nodes, outputs } = this.#edit.finish().graph;
    const roots = [
      ...outputs.map(({ name }) => name),
      ...nodes.filter((node) => this.#edit.isOwn(node)).flatMap((node) => [...readsOf(node)]),
    ];
    for (const name of roots) {
      const value = values.get(name);
      if (value === undefined || skipped.has(name) || this.#edit.isReplaced(name)) continue;
      if (!resolver.resolve(value)) return resolver.blame!;
    }
    return resolver.positions;
  }
}

/** A declared value with another shape. */
function reshaped(value: ModelValue, shape: readonly ModelDimension[], like: Value): ModelValue {
  const type = value.type?.kind === "tensor" ? value.type : undefined;
  return { ...value, type: { kind: "tensor", elementType: type?.elementType ?? like.fact!.type, shape } };
}
