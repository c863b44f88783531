/**
 * MoE and QMoE on WASM: tokens are routed, and only the experts that are chosen are read. Products are those of MatMul and
 * MatMulNBits: an expert with a few tokens streams its weights, one with more meets them in panels.
 */
import type { Operand } from "../../graph/kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { packedRowBytes, panelsAtOnce, quantizedBytes, scratchBytes } from "../../wasm-kernels/exports.js";
import { elementCode, expertActivationCode } from "../../wasm-kernels/jobs.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { isProductType, productParts } from "../shared/wasm/matmul.js";
import { holdsSpecials } from "../shared/wasm/specials.js";
import { codeOf, oneFloatType, partsFor } from "../shared/wasm/work.js";
import { type ExpertOperands, expertsOf, floatBits, fusionOf, type ProductOperands, type WeightForm } from "./infer.js";
import { type Call, formOf, given } from "./call.js";
import { MoE, QMoE } from "./op.js";

/** Bytes of an expert's own job at the start of scratch. */
const ownJob = 256;

/** Each token's experts, weighed and summed. */
export const experts: WasmKernel = wasmKernel([MoE, QMoE], {
  accepts(call) {
    const { inputs, outputs, attrs } = call as Call;
    const { fc1, fc2, fc3 } = expertsOf<Operand>(inputs);
    const products = [fc1, fc2, ...(fc3 === undefined ? [] : [fc3])];
    const own = [inputs.input, inputs.router_probs, given(inputs), outputs.output, ...products.map(({ bias }) => bias)];
    const types = oneFloatType(own);
    if (types !== true) return types;
    for (const operand of [...own, ...products.flatMap(({ weights, scales, zeros }) => [weights, scales, zeros])])
      if (operand?.contiguous === false) return "an operand has gaps";
    for (const { scales } of products)
      if (scales !== undefined && !isProductType(scales.type)) return `there is no kernel for scales of ${scales.type}`;
    if (formOf(attrs).bits !== floatBits && fc1.weights.type !== "uint8") return "the weights are no bytes";
    return outputs.output.view.size === 0 ? "there is nothing to compute" : true;
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call as Call;
    const { input, router_probs: scores } = inputs;
    const operands = expertsOf<Operand>(inputs);
    const form = formOf(attrs);
    const hidden = input.shape.at(-1)!;
    const tokens = input.view.size / hidden;
    const routes = routesOf(recorder, { tokens, count: scores.shape[1], k: attrs.k });
    const weights = given(inputs);
    recorder.run(
      "routeExperts",
      {
        ...routes,
        scores: recorder.address(scores),
        given: weights === undefined ? 0 : recorder.address(weights),
        type: codeOf(scores.type),
        normalize: attrs.normalize_routing_weights ? 1 : 0,
        mixer: attrs.use_sparse_mixer ? 1 : 0,
      },
      1,
    );
    const size = innerSize(operands, form, hidden);
    const fusion = fusionOf(attrs, operands.fc3 !== undefined);
    const wide = fusion === "none" ? size : 2 * size;
    const count = tokens * attrs.k;
    const rows = recorder.temporary(count * hidden * 4);
    recorder.run(
      "expertRows",
      {
        source: recorder.address(input),
        target: rows,
        tokenOf: routes.tokenOf,
        type: codeOf(input.type),
        routes: count,
        size: hidden,
      },
      partsFor(recorder, count * hidden * 0.3),
    );
    const products = new ExpertProducts(recorder, routes, form, operands);
    const first = recorder.temporary(count * wide * 4);
    const third = operands.fc3 && recorder.temporary(count * size * 4);
    const packed = products.pack(rows, hidden);
    products.multiply(operands.fc1, packed, wide, first);
    if (operands.fc3 !== undefined) products.multiply(operands.fc3, packed, size, third!);
    const inner = recorder.temporary(count * size * 4);
    const biasAt = (product: ProductOperands<Operand> | undefined): number =>
      product?.bias === undefined ? 0 : recorder.address(product.bias);
    recorder.run(
      "expertActivation",
      {
        source: first,
        third: third ?? 0,
        bias: biasAt(operands.fc1),
        thirdBias: biasAt(operands.fc3),
        target: inner,
        starts: routes.starts,
        type: codeOf(input.type),
        kind: expertActivationCode[attrs.activation_type],
        linear: fusion === "none" ? 0 : fusion === "interleaved" ? 1 : size,
        routes: count,
        experts: routes.experts,
        size,
        alpha: attrs.activation_alpha,
        beta: attrs.activation_beta,
        limit: attrs.swiglu_limit,
      },
      Math.min(count, partsFor(recorder, count * size * 2)),
    );
    const last = recorder.temporary(count * hidden * 4);
    products.multiply(operands.fc2, products.pack(inner, size), hidden, last);
    recorder.run(
      "expertMix",
      {
        source: last,
        bias: biasAt(operands.fc2),
        output: recorder.address(outputs.output),
        chosen: routes.chosen,
        places: routes.places,
        weights: routes.weights,
        type: codeOf(input.type),
        tokens,
        k: attrs.k,
        size: hidden,
      },
      Math.min(tokens, partsFor(recorder, count * hidden * 0.5)),
    );
  },
});

/** The size between an expert's products. */
const innerSize = ({ fc2: { weights } }: ExpertOperands<Operand>, { bits }: WeightForm, hidden: number): number =>
  (weights.view.size * (bits === floatBits ? 1 : 8 / bits)) / weights.shape[0] / hidden;

/** Where routes lie, and how many there are. */
function routesOf(
  recorder: Recorder,
  { tokens, count, k }: { readonly tokens: number; readonly count: number; readonly k: number },
): Record<"tokens" | "experts" | "k" | "starts" | "packed" | "tokenOf" | "chosen" | "places" | "weights", number> {
  const words = (length: number): number => recorder.temporary(4 * length);
  return {
    tokens,
    experts: count,
    k,
    starts: words(count + 1),
    packed: words(count + 1),
    tokenOf: words(tokens * k),
    chosen: words(tokens * k),
    places: words(tokens * k),
    weights: words(tokens * k),
  };
}

/** Rows of routes, and what products take of them. */
interface PackedRows {
  readonly a: number;
  readonly k: number;
  readonly rows: number;
  readonly scales: number;
  readonly sums: number;
}

// The fields of jobs that each expert fills in for itself, or that are of no use here.
const oneMatrix = { m: 1, batch: 1, aBatch: 0, bBatch: 0, cBatch: 0, splits: 1, aType: elementCode.float32 };
const noLevels = { scale: 0, zero: 0, scaleK: 0, scaleN: 0, block: 1 };
const noMatrix = { a: 0, c: 0, bias: 0, rows: 0, partials: 0, ...oneMatrix, ...noLevels };
const noBlocks = { values: 0, aScales: 0, aSums: 0, bias: 0, c: 0, a: 0, rows: 0, zerosType: -1, m: 1 };
const noProduct = { product: 0, c: 0, n: 1, weightStep: 0, scaleStep: 0, zeroStep: 0 };

/** Routes of an expert up to which weights are streamed by activations that are not rounded. */
const fewRows = { float: 8, levels: 3 } as const;

/** How an expert's rows of `k` meet its weights. */
interface Meeting {
  /** 0: floats; 1: levels, activations as they are; 2: levels, activations of 16 bits. */
  readonly levels: 0 | 1 | 2;
  readonly few: number;
  /** Bytes of a packed or quantized row. */
  readonly valueRow: number;
  readonly scaleRow: number;
  readonly sumRow: number;
}

/** The products of all routes with the weights of their experts. */
class ExpertProducts {
  readonly #recorder: Recorder;
  readonly #routes: ReturnType<typeof routesOf>;
  readonly #form: WeightForm;
  readonly #room: number;
  /** True where blocks can be met by activations of 16 bits: nearly as exact as float32, and several times as fast. */
  readonly #rounds: boolean;

  constructor(
    recorder: Recorder,
    routes: ReturnType<typeof routesOf>,
    form: WeightForm,
    { fc1, fc2, fc3 }: ExpertOperands<Operand>,
  ) {
    this.#recorder = recorder;
    this.#routes = routes;
    this.#form = form;
    this.#room = recorder.scratchBytes - ownJob;
    this.#rounds = [fc1, fc2, fc3].every(
      (product) =>
        product === undefined ||
        (product.zeros?.shape.length !== 2 &&
          !(product.scales?.type === "float16" && product.scales.known && holdsSpecials(product.scales))),
    );
  }

  get #count(): number {
    return this.#routes.tokens * this.#routes.k;
  }

  /** The block of rows of `k`, a power of two also where it is the whole row; never much longer than that: kernels hold it in 32 bits. */
  #blockOf(k: number): number {
    const { blockSize } = this.#form;
    return blockSize === 0 || blockSize > k ? 2 ** Math.ceil(Math.log2(k)) : blockSize;
  }

  #meetingOf(k: number): Meeting {
    const { bits } = this.#form;
    const { batchInvariant } = this.#recorder;
    const block = this.#blockOf(k);
    const floats = { valueRow: packedRowBytes({ batch: 1, m: 4, k }) / 4, scaleRow: 0, sumRow: 0 };
    if (bits === floatBits) {
      const streams = !batchInvariant && fewRows.float * k * 4 <= this.#room;
      return { levels: 0, few: streams ? fewRows.float : 0, ...floats };
    }
    if (this.#rounds && block >= 16 && k % block === 0) {
      const sizes = quantizedBytes({ ...this.#rounding(k), m: 4 });
      return { levels: 2, few: 0, valueRow: sizes.values / 4, scaleRow: sizes.scales / 4, sumRow: sizes.sums / 4 };
    }
    const streams =
      !batchInvariant && bits !== 2 && k % 32 === 0 && k <= block && 4 * fewRows.levels * block <= this.#room;
    return { levels: 1, few: streams ? fewRows.levels : 0, ...floats };
  }

  /** The fields of a QuantizeRows but for places and rows. */
  #rounding(k: number) {
    const { bits } = this.#form;
    const alike = this.#recorder.batchInvariant ? 1 : 0;
    return { type: elementCode.float32, k, sourceRow: k, blockSize: this.#blockOf(k), bits, precision: 16, alike };
  }

  #matrix(n: number, k: number) {
    return {
      ...noMatrix,
      n,
      k,
      aRow: k,
      aColumn: 1,
      bK: 1,
      bN: k,
      cRow: n,
      panels: panelsAtOnce(n, this.#room),
    };
  }

  /** Rows [routes, k] of float32 as products take them. */
  pack(a: number, k: number): PackedRows {
    const meeting = this.#meetingOf(k);
    const { starts, packed, experts, tokens } = this.#routes;
    // A token's experts differ: none has more routes than there are tokens.
    if (tokens <= meeting.few) return { a, k, rows: 0, scales: 0, sums: 0 };
    const recorder = this.#recorder;
    const most = this.#count + 3 * Math.min(experts, this.#count);
    const [rows, scales, sums] = [meeting.valueRow, meeting.scaleRow, meeting.sumRow].map((bytes) =>
      bytes === 0 ? 0 : recorder.temporary(most * bytes),
    );
    const floats = { ...this.#matrix(1, k), b: 0, bType: elementCode.float32, looks: 0 };
    const levels = { ...this.#rounding(k), m: 1, source: 0, values: 0, scales: 0, sums: 0 };
    const rounds = meeting.levels === 2;
    recorder.run(
      "expertPacking",
      {
        ...meeting,
        ...noProduct,
        starts,
        packed,
        experts,
        a,
        k,
        rows,
        scales,
        sums,
        packing: rounds ? recorder.job("quantizeRows", levels) : recorder.job("packRows", floats),
        scratch: rounds ? scratchBytes("quantizeRows", levels) : scratchBytes("packRows", floats),
      },
      partsFor(recorder, this.#count * k),
    );
    return { a, k, rows, scales, sums };
  }

  /** rows · weightsᵀ of each expert, in float32. */
  multiply({ weights, scales, zeros }: ProductOperands<Operand>, given: PackedRows, n: number, c: number): void {
    const { k, rows } = given;
    const recorder = this.#recorder;
    const meeting = this.#meetingOf(k);
    const { starts, packed, experts, tokens } = this.#routes;
    const { bits, blockSize } = this.#form;
    const rounds = meeting.levels === 2;
    const floats = {
      ...this.#matrix(n, k),
      b: recorder.address(weights),
      bType: elementCode[weights.type as "float32"],
      looks: meeting.few > 0 && weights.type === "float16" && holdsSpecials(weights) ? 1 : 0,
    };
    const blocks = {
      ...noBlocks,
      n,
      k,
      cRow: n,
      bits,
      b: recorder.address(weights),
      scales: scales === undefined ? 0 : recorder.address(scales),
      zeros: zeros === undefined ? 0 : recorder.address(zeros),
      scaleType: codeOf(scales?.type ?? "float32"),
      aType: elementCode.float32,
      blockSize: this.#blockOf(k),
      precision: rounds ? 16 : 32,
      alike: rounds && recorder.batchInvariant ? 1 : 0,
      bRow: rounds ? 0 : (k * bits) / 8,
      zerosRow: zeros?.shape.length === 2 ? bits : 0,
    };
    const needs = (m: number, at: number): number =>
      meeting.levels === 0
        ? scratchBytes("matmul", { ...floats, m, rows: at })
        : scratchBytes("matmulBlocks", { ...blocks, m, rows: at });
    const parts = blockSize === 0 ? 1 : Math.ceil(k / blockSize);
    recorder.run(
      "expertProducts",
      {
        ...meeting,
        ...given,
        starts,
        packed,
        experts,
        packing: 0,
        c,
        n,
        product: meeting.levels === 0 ? recorder.job("matmul", floats) : recorder.job("matmulBlocks", blocks),
        few: rows === 0 ? tokens : meeting.few,
        weightStep: byteLengthOf(weights.type, weights.view.size / experts),
        scaleStep: scales === undefined ? 0 : byteLengthOf(scales.type, n * parts),
        zeroStep: zeros === undefined ? 0 : zeros.view.size / experts,
        // Few rows and many may need more than the other.
        scratch: Math.max(needs(Math.max(1, meeting.few), 0), needs(tokens, 1)),
      },
      productParts(this.#count * n * k, recorder),
    );
  }
}
