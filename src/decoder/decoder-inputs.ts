/**
 * The inputs of text decoders, by the names that exporters give them, and what each is fed: the one place that knows. Fills numbers in;
 * runs nothing, and knows no cache.
 */
import { InsituError } from "../base/error.js";
import { isLittleEndian } from "../tensor/access.js";
import type { ElementType } from "../tensor/element-type.js";
import { Tensor } from "../tensor/tensor.js";
import { logitRows, packedInput, pageInputs, stateInput } from "#insitu/rewrite/page-names.js";
import { hostRows, samplingInputs } from "#insitu/rewrite/sampling-names.js";

/** An input that is filled from what a run reads. */
export type DecoderInput =
  | "input_ids"
  | "position_ids"
  | "attention_mask"
  | "write_indices"
  | "nonpad_kv_seqlen"
  | "num_logits_to_keep"
  | typeof logitRows
  | "use_cache_branch";

/** What one run reads, as its inputs tell it. */
export interface Reading {
  /** The tokens of each sample, equally many for all. */
  readonly tokens: readonly (readonly number[])[];
  /** The position of each sample's first token; what lies before 0 is padding. */
  readonly positions: readonly number[];
  /** Where new rows start and how many are valid then; undefined where the state fills that in. */
  readonly rows: { readonly start: readonly number[]; readonly valid: readonly number[] } | undefined;
  /** Columns of a mask over rows, and which it shows of each sample: those from `from` on that come before `to`. */
  readonly mask: { readonly columns: number; readonly from: readonly number[]; readonly to: readonly number[] };
  /** Tokens at the end whose logits are needed. */
  readonly keep: number;
  /** The same, or others, by their numbers among all tokens. */
  readonly wanted: readonly number[];
}

/** An input's numbers, one by one. */
interface Numbers {
  readonly dims: readonly number[];
  readonly at: (index: number) => number;
}

const fillings: Readonly<Record<DecoderInput, (reading: Reading) => Numbers | undefined>> = {
  input_ids: ({ tokens }) => {
    const count = tokens[0].length;
    return { dims: [tokens.length, count], at: (index) => tokens[Math.floor(index / count)][index % count] };
  },
  position_ids: ({ tokens, positions }) => {
    const count = tokens[0].length;
    const at = (index: number): number => Math.max(0, positions[Math.floor(index / count)] + (index % count));
    return { dims: [tokens.length, count], at };
  },
  attention_mask: ({ tokens, mask: { columns, from, to } }) => {
    const at = (index: number): number => {
      const [sample, row] = [Math.floor(index / columns), index % columns];
      return row >= from[sample] && row < to[sample] ? 1 : 0;
    };
    return { dims: [tokens.length, columns], at };
  },
  write_indices: ({ tokens, rows }) => rows && { dims: [tokens.length], at: (sample) => rows.start[sample] },
  nonpad_kv_seqlen: ({ tokens, rows }) => rows && { dims: [tokens.length], at: (sample) => rows.valid[sample] },
  [logitRows]: ({ wanted }) => ({ dims: [wanted.length], at: (index) => wanted[index] }),
  num_logits_to_keep: ({ keep }) => ({ dims: [], at: () => keep }),
  use_cache_branch: () => ({ dims: [1], at: () => 1 }),
};

/** True for an input that is filled here. */
export const isFilled = (name: string): name is DecoderInput => Object.hasOwn(fillings, name);

/** True for an output of rows that no head has made logits of. */
export const isHidden = (name: string): boolean => /hidden_states?$/.test(name);

/** True for an input whose numbers depend on how many rows there are. */
export const tellsOfRows = (name: DecoderInput): boolean =>
  name === "position_ids" || name === "attention_mask" || name === "write_indices" || name === "nonpad_kv_seqlen";

/** True for an input that says where pages are: whoever keeps the pages feeds it. */
export const isOfPages = (name: string): boolean => pageNames.includes(name);

/** True for an input that says how a token is drawn: it has a default. */
export const isOfSampling = (name: string): boolean => samplingNames.includes(name);

const samplingNames: readonly string[] = [...Object.values(samplingInputs), hostRows];

const pageNames: readonly string[] = [...Object.values(pageInputs), packedInput, stateInput];

/** Every name that is known, for errors. */
export const decoderInputNames: readonly string[] = [...Object.keys(fillings), ...pageNames];

/** The tensor for an input; undefined where the state fills it in. */
export function fill(name: DecoderInput, type: ElementType, reading: Reading): Tensor | undefined {
  const numbers = fillings[name](reading);
  return numbers && integers(name, type, numbers);
}

/** Numbers up to this many are made bigints one by one: cheaper than asking for the buffer of the array. */
const fewNumbers = 8;

/** A tensor of whole numbers. */
export function int64(values: readonly number[], dims: readonly number[]): Tensor {
  const numbers = new BigInt64Array(values.length);
  // By halves where they fit: making a bigint of each is most of the work for tables of pages.
  const halves = isLittleEndian && values.length > fewNumbers ? new Int32Array(numbers.buffer) : undefined;
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (halves === undefined || value !== (value | 0)) numbers[at] = BigInt(value);
    else {
      halves[2 * at] = value;
      halves[2 * at + 1] = value >> 31;
    }
  }
  return new Tensor("int64", numbers, dims);
}

/** Rows of whole numbers from 0 on that fit 32 bits, each filled up with -1: tables of pages, which are made for every token. */
export function int64Table(rows: readonly (readonly number[])[], columns: number): Tensor {
  const numbers = new BigInt64Array(rows.length * columns).fill(-1n);
  const halves = new Int32Array(numbers.buffer);
  rows.forEach((row, at) => {
    const length = Math.min(row.length, columns);
    for (let column = 0; column < length; column++) {
      const place = at * columns + column;
      if (!isLittleEndian) numbers[place] = BigInt(row[column]);
      else {
        halves[2 * place] = row[column];
        halves[2 * place + 1] = 0;
      }
    }
  });
  return new Tensor("int64", numbers, [rows.length, columns]);
}

function integers(name: string, type: ElementType, { dims, at }: Numbers): Tensor {
  const length = dims.reduce((product, dim) => product * dim, 1);
  const values: number[] = [];
  for (let index = 0; index < length; index++) values.push(at(index));
  const wide = type === "int32" ? values.find((value) => value !== (value | 0)) : undefined;
  if (wide !== undefined)
    throw new InsituError("invalid-argument", `input "${name}" is int32, which cannot hold ${wide}`);
  switch (type) {
    case "int64":
      return int64(values, dims);
    case "int32":
      return new Tensor(type, Int32Array.from(values), dims);
    case "bool":
      return new Tensor(type, Uint8Array.from(values), dims);
    case "float32":
      return new Tensor(type, Float32Array.from(values), dims);
    default:
      throw new InsituError("invalid-model", `input "${name}" must be int64, int32, bool or float32, got ${type}`);
  }
}
