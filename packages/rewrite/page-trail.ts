/** The way from a cache to the Attention that reads it, in a model as its file has it: the write, and the layouts in between. */
import type { Model, ModelAttribute, ModelDimension, ModelNode } from "#insitu/onnx/model.js";
import { tensorView } from "#insitu/onnx/model.js";
import { readIntegers } from "#insitu/tensor/access.js";
import type { ElementType } from "#insitu/tensor/element-type.js";
import { readsOf } from "./model-edit.js";

/** A change of layout between a cache and Attention; both work on new rows as on the whole cache. */
export type LayoutStep =
  | { readonly kind: "transpose"; readonly perm: readonly number[] }
  | { readonly kind: "reshape"; readonly shape: readonly number[] };

/** A cache: how it is written and how Attention sees it. */
export interface CacheTrail {
  readonly past: string;
  readonly present: string;
  readonly type: ElementType;
  /** What the cache's declaration calls the batch. */
  readonly batch: ModelDimension;
  /** The new rows, in the layout of the cache. */
  readonly update: string;
  /** The name of the node that writes. */
  readonly writer: string;
  /** From the layout of the cache to that of Attention. */
  readonly steps: readonly LayoutStep[];
  /** True for [batch, rows, heads · head size], false for [batch, heads, rows, head size]. */
  readonly packed: boolean;
  readonly heads: number;
  readonly headSize: number;
}

interface Axis {
  readonly size: ModelDimension;
  readonly rows: boolean;
}

/** True for the attentions that read caches written outside them: ONNX's, and insitu's with sinks. */
export const isCacheAttention = ({ opType, domain }: ModelNode): boolean =>
  (opType === "Attention" && domain === "") || (opType === "SinkAttention" && domain === "insitu");

/** Finds caches in a model. */
export class ModelReader {
  readonly #model: Model;
  readonly #makers = new Map<string, ModelNode>();
  readonly #readers = new Map<string, ModelNode[]>();

  constructor(model: Model) {
    this.#model = model;
    for (const node of model.graph.nodes) {
      for (const name of node.outputs) if (name !== "") this.#makers.set(name, node);
      for (const name of new Set(readsOf(node))) this.#readers.set(name, [...(this.#readers.get(name) ?? []), node]);
    }
  }

  /** The cache behind an operand of Attention, or why there is none. */
  trailOf(operand: string, headCount: number | undefined): CacheTrail | string {
    const steps: LayoutStep[] = [];
    let name = operand;
    for (let node = this.#makers.get(name); ; node = this.#makers.get(name)) {
      if (node === undefined) return `"${operand}" does not come from a TensorScatter into an input of the graph`;
      if (node.opType === "TensorScatter" && node.domain === "")
        return this.#written(node, steps.toReversed(), operand, headCount);
      const step = this.#stepOf(node);
      if (step === undefined)
        return `"${operand}" comes from the cache through ${node.opType} "${node.name || node.outputs[0]}", which is no change of layout`;
      if (step !== "same") steps.push(step);
      name = node.inputs[0];
    }
  }

  #stepOf(node: ModelNode): LayoutStep | "same" | undefined {
    if (node.domain !== "") return undefined;
    if (node.opType === "Identity") return "same";
    if (node.opType === "Transpose") {
      const perm = node.attributes.get("perm");
      return perm?.kind === "ints" ? { kind: "transpose", perm: Array.from(perm.value, Number) } : undefined;
    }
    const shape = node.opType === "Reshape" ? this.#integers(node.inputs[1]) : undefined;
    return shape === undefined || intOf(node.attributes.get("allowzero")) === 1n
      ? undefined
      : { kind: "reshape", shape };
  }

  #integers(name: string): readonly number[] | undefined {
    const tensor = this.#model.graph.initializers.find((candidate) => candidate.name === name);
    if (tensor !== undefined) return readIntegers(tensorView(tensor));
    const constant = this.#makers.get(name)?.attributes;
    const value = constant?.get("value");
    if (value?.kind === "tensor") return readIntegers(tensorView(value.value));
    const list = constant?.get("value_ints");
    return list?.kind === "ints" ? Array.from(list.value, Number) : undefined;
  }

  #written(
    node: ModelNode,
    steps: readonly LayoutStep[],
    operand: string,
    headCount: number | undefined,
  ): CacheTrail | string {
    const { graph } = this.#model;
    const [past, update] = node.inputs;
    const [present] = node.outputs;
    const input = graph.inputs.find(({ name }) => name === past);
    const label = `TensorScatter "${node.name || present}"`;
    if (input === undefined || !graph.outputs.some(({ name }) => name === present))
      return `${label} does not write an input of the graph that becomes an output`;
    const mode = node.attributes.get("mode");
    if (mode?.kind === "string" && mode.value !== "linear")
      return `${label} is ${mode.value}: pages take one row after another`;
    if (input.type?.kind !== "tensor" || input.type.shape === undefined || input.type.elementType === undefined)
      return `the shape of cache "${past}" is not declared`;
    const other = this.#readers.get(past)?.find((reader) => reader !== node && reader.opType !== "Shape");
    if (other !== undefined) return `${other.opType} "${other.name || other.outputs[0]}" also reads "${past}"`;
    const rank = input.type.shape.length;
    const axis = Number(intOf(node.attributes.get("axis")) ?? -2n);
    let axes: Axis[] | undefined = input.type.shape.map((size, at) => ({ size, rows: at === (axis + rank) % rank }));
    for (const step of steps) axes = axes && applied(axes, step);
    const packed = axes?.length === 3;
    const heads = packed ? headCount : axes?.[1].size;
    const width = axes?.at(-1)?.size;
    if (axes === undefined || !axes[packed ? 1 : 2]?.rows || typeof heads !== "number" || typeof width !== "number")
      return `the layout of "${operand}" is neither [batch, rows, heads · head size] nor [batch, heads, rows, head size] with sizes that are known`;
    const headSize = packed ? width / heads : width;
    const { elementType: type, shape } = input.type;
    return { past, present, type, batch: shape[0], update, writer: node.name, steps, packed, heads, headSize };
  }
}

/** The axes after a step; undefined where its rows do not stay rows. */
function applied(axes: readonly Axis[], step: LayoutStep): Axis[] | undefined {
  if (step.kind === "transpose") return step.perm.map((axis) => axes[axis]);
  const { shape } = step;
  // Leading axes stay; of the rest all sizes must be known.
  const kept = shape.findIndex((size, at) => size !== 0 || at >= axes.length);
  const stay = kept < 0 ? shape.length : kept;
  const rest = axes.slice(stay);
  if (rest.some(({ size, rows }) => rows || typeof size !== "number")) return undefined;
  const product = rest.reduce((sum, { size }) => sum * (size as number), 1);
  const known = shape.slice(stay).reduce((sum, size) => (size > 0 ? sum * size : sum), 1);
  const sizes = shape.slice(stay).map((size) => (size === -1 ? product / known : size));
  if (sizes.some((size) => size <= 0)) return undefined;
  return [...axes.slice(0, stay), ...sizes.map((size) => ({ size, rows: false }))];
}

const intOf = (attribute: ModelAttribute | undefined): bigint | undefined =>
  attribute?.kind === "int" ? attribute.value : undefined;
