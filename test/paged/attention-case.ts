/**
 * Random calls of PagedAttention, and the same attention over a cache without pages: every head of every sample becomes a sample of
 * ONNX's Attention in float32, with the rows that its table names, one after the other.
 */
import { caseAttributes, type CaseAttribute, of } from "../../tools/cases/shared/case.js";
import { readAttributes } from "../../src/graph/attribute.js";
import { evaluate, seededRandom } from "../../src/graph/call.js";
import { factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import { numberReader, numberWriter, readNumbers, writeNumbers } from "../../src/tensor/access.js";
import { type AttributeInput, float } from "../../src/onnx/build.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";

/** A call, and what must come of it. */
export interface PagedCase {
  readonly text: string;
  readonly attrs: Readonly<Record<string, CaseAttribute>>;
  readonly inputs: readonly (View | undefined)[];
  readonly y: View;
  readonly sums: View;
  readonly tolerance: number;
}

const quantized: readonly ElementType[] = ["int8", "float8e4m3fn", "float8e5m2"];
const none = (): never => {
  throw new Error("no subgraphs");
};

/** Calls an operator's reference implementation. */
export function call(
  domain: string,
  name: string,
  opset: number,
  attrs: Readonly<Record<string, CaseAttribute>>,
  inputs: readonly (View | undefined)[],
  wanted: readonly boolean[],
): (View | undefined)[] {
  const op = operators.find(domain, name, opset)!;
  const node = { op, label: name, opset, attrs: readAttributes(op.attrs, caseAttributes(attrs), name), wanted };
  return evaluate(
    node,
    inputs,
    inputs.map((view) => view && factOfView(view)),
    none,
    none,
  );
}

/** Attributes of a case as a model's node has them. */
export const modelAttributes = (attrs: Readonly<Record<string, CaseAttribute>>): Record<string, AttributeInput> =>
  Object.fromEntries(
    Object.entries(attrs).map(([name, given]) => [
      name,
      typeof given === "object" && "float" in given ? float(given.float) : (given as AttributeInput),
    ]),
  );

const product = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1);

/** The element of a head's vector in a slot, in each layout: written anew, not the operators' own. */
export function elementAt(
  layout: string,
  piece: number,
  { blockSize, heads, size }: { blockSize: number; heads: number; size: number },
  slot: number,
  head: number,
  i: number,
): number {
  const [block, row] = [Math.floor(slot / blockSize), slot % blockSize];
  const page = block * blockSize * heads * size;
  if (layout === "Norm") return page + (row * heads + head) * size + i;
  if (layout === "NHSD") return page + (head * blockSize + row) * size + i;
  const at = head * size + i;
  return page + (Math.floor(at / piece) * blockSize + row) * piece + (at % piece);
}

/** The case of a seed. */
export function pagedCase(seed: number): PagedCase {
  const random = seededRandom(seed);
  const integer = (low: number, high: number): number => low + Math.floor(random() * (high - low + 1));
  const pick = <T>(choices: readonly T[]): T => choices[integer(0, choices.length - 1)];
  const layout = pick(["Norm", "PA_NZ", "NHSD"]);
  const type = pick<ElementType>(["float32", "float32", "float16", "bfloat16"]);
  const cacheType = random() < 0.35 ? pick(quantized) : type;
  const width = cacheType === "float32" ? 4 : quantized.includes(cacheType) ? 1 : 2;
  const piece = 32 / width;
  const blockSize = pick([1, 2, 3, 5, 16, 16, 32, 128]);
  const headSize = (): number =>
    layout === "PA_NZ" ? piece * integer(1, piece > 16 ? 2 : 3) : pick([1, 3, 4, 6, 8, 16, 20, 32, 64]);
  const [size, valueSize] = [headSize(), headSize()];
  const kvHeads = pick([1, 1, 2, 3, 4]);
  const group = pick([1, 1, 2, 3, 4, 5, 7, 8]);
  const heads = kvHeads * group;
  const batch = integer(1, 3);
  const queries = random() < 0.5 ? 1 : integer(1, 9);
  const columns = blockSize >= 32 ? integer(1, 3) : integer(1, Math.max(1, Math.ceil(70 / blockSize)));
  const perHeadTables = random() < 0.25;
  const perHeadLengths = perHeadTables || random() < 0.2;
  const pageHeads = perHeadTables ? 1 : kvHeads;
  const tablesCount = batch * (perHeadTables ? kvHeads : 1);
  const room = columns * blockSize;
  const blocks = tablesCount * columns + integer(0, 2);
  const indexType = (): ElementType => pick<ElementType>(["int32", "int64"]);
  const fill = (of: ElementType, shape: readonly number[], next: () => number): View => {
    const view = View.allocate(of, shape);
    const values = Array.from({ length: product(shape) }, next);
    if (of === "int64") (view.data as BigInt64Array).set(values.map(BigInt));
    else writeNumbers(view, values);
    return view;
  };
  const lengths = Array.from({ length: batch * kvHeads }, () => (random() < 0.1 ? 0 : integer(0, room)));
  if (!perHeadLengths) lengths.forEach((_, at) => (lengths[at] = lengths[Math.floor(at / kvHeads) * kvHeads]));
  // Blocks in any order, none twice; entries behind the needed ones point anywhere.
  const free = Array.from({ length: blocks }, (_, at) => at)
    .map((block) => ({ block, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ block }) => block);
  const entries: number[] = [];
  for (let table = 0; table < tablesCount; table++) {
    const own = perHeadTables ? [lengths[table]] : lengths.slice(table * kvHeads, (table + 1) * kvHeads);
    const needed = Math.ceil(Math.max(...own) / blockSize);
    for (let column = 0; column < columns; column++)
      entries.push(column < needed ? free.pop()! : pick([-1, -7, blocks, 1 << 20]));
  }
  const shapeOf = (of: number): number[] =>
    layout === "Norm"
      ? [blocks, blockSize, pageHeads, of]
      : layout === "NHSD"
        ? [blocks, pageHeads, blockSize, of]
        : [blocks, (pageHeads * of) / piece, blockSize, piece];
  const value = (): number => random() * 4 - 2;
  const codes = cacheType === "int8" ? (): number => integer(-127, 127) : (): number => (random() - 0.5) * 40;
  const scaled = quantized.includes(cacheType);
  const [keyCache, valueCache] = [size, valueSize].map((of) => fill(cacheType, shapeOf(of), scaled ? codes : value));
  // What no length covers must not be looked at.
  const valid = new Set<number>();
  lengths.forEach((length, list) => {
    const table = (perHeadTables ? list : Math.floor(list / kvHeads)) * columns;
    for (let row = 0; row < length; row++) {
      const slot = entries[table + Math.floor(row / blockSize)] * blockSize + (row % blockSize);
      valid.add(slot * pageHeads + (perHeadTables ? 0 : list % kvHeads));
    }
  });
  for (const [cache, of] of [
    [keyCache, size],
    [valueCache, valueSize],
  ] as const) {
    if (scaled) continue;
    const write = numberWriter(cache);
    for (let place = 0; place < blocks * blockSize * pageHeads; place++)
      for (let i = 0; i < of && !valid.has(place); i++) {
        const slot = Math.floor(place / pageHeads);
        write(elementAt(layout, piece, { blockSize, heads: pageHeads, size: of }, slot, place % pageHeads, i), NaN);
      }
  }
  const scales = (): View | undefined =>
    scaled ? fill("float32", [blocks, blockSize, pageHeads], () => random() * 0.05) : undefined;
  const [keyScale, valueScale] = [scales(), scales()];
  const packed = random() < 0.3;
  const query = fill(type, packed ? [batch, queries, heads * size] : [batch, heads, queries, size], value);
  const causal = random() < 0.6 ? 1 : 0;
  const [left, right] = [random() < 0.3 ? integer(0, room) : -1, random() < 0.2 ? integer(0, 5) : -1];
  const softcap = random() < 0.2 ? 3 : 0;
  const scale = random() < 0.3 ? 0.25 : 1 / Math.sqrt(size);
  const shared = {
    is_causal: causal,
    scale: { float: scale },
    softcap: { float: softcap },
    left_window_size: left,
    right_window_size: right,
  };
  const attrs = { ...shared, cache_mode: layout, ...(packed ? { q_num_heads: heads, kv_num_heads: kvHeads } : {}) };
  let [next, at, nth, nthSink] = [0, 0, 0, 0];
  const sinks = seed % 3 === 1 ? Array.from({ length: group }, (_, head) => head - group / 2) : undefined;
  const inputs = [
    query,
    keyCache,
    valueCache,
    fill(indexType(), perHeadTables ? [batch, kvHeads, columns] : [batch, columns], () => entries[next++]),
    fill(
      indexType(),
      perHeadLengths ? [batch, kvHeads] : [batch],
      () => lengths[perHeadLengths ? at++ : kvHeads * at++],
    ),
    keyScale,
    valueScale,
    undefined,
    // Those of a group are the same in each, since below a group is a sample.
    sinks && fill(type, [heads], () => sinks[nthSink++ % group]),
  ];

  // Without pages.
  const numbers = readNumbers(query);
  const queryOf = (sample: number, head: number, row: number, i: number): number =>
    numbers[
      packed
        ? (sample * queries + row) * heads * size + head * size + i
        : ((sample * heads + head) * queries + row) * size + i
    ];
  const plainQuery = View.allocate("float32", [batch * kvHeads, group, queries, size]);
  const [plainKeys, plainValues] = [size, valueSize].map((of) =>
    View.allocate("float32", [batch * kvHeads, 1, room, of]),
  );
  const gather = (cache: View, factor: View | undefined, of: number, target: View): void => {
    const read = numberReader(cache);
    const data = target.data as Float32Array;
    lengths.forEach((length, list) => {
      const [sample, head] = [Math.floor(list / kvHeads), list % kvHeads];
      for (let row = 0; row < length; row++) {
        const table = (perHeadTables ? list : sample) * columns;
        const slot = entries[table + Math.floor(row / blockSize)] * blockSize + (row % blockSize);
        const pageHead = perHeadTables ? 0 : head;
        const by = factor === undefined ? 1 : (factor.data as Float32Array)[slot * pageHeads + pageHead];
        for (let i = 0; i < of; i++)
          data[(list * room + row) * of + i] =
            read(elementAt(layout, piece, { blockSize, heads: pageHeads, size: of }, slot, pageHead, i)) * by;
      }
    });
  };
  gather(keyCache, keyScale, size, plainKeys);
  gather(valueCache, valueScale, valueSize, plainValues);
  const queryData = plainQuery.data as Float32Array;
  for (let list = 0, to = 0; list < batch * kvHeads; list++)
    for (let head = 0; head < group; head++)
      for (let row = 0; row < queries; row++)
        for (let i = 0; i < size; i++)
          queryData[to++] = queryOf(Math.floor(list / kvHeads), (list % kvHeads) * group + head, row, i);
  const nonpad = fill("int64", [batch * kvHeads], () => lengths[nth++]);
  const operands = [plainQuery, plainKeys, plainValues, undefined, undefined, undefined, nonpad];
  const [plain, , , weights] = call(
    sinks === undefined ? "" : "insitu",
    sinks === undefined ? "Attention" : "SinkAttention",
    sinks === undefined ? 25 : 1,
    { ...shared, qk_matmul_output_mode: 3 },
    sinks === undefined ? operands : [...operands, of("float32", [group], sinks)],
    [true, false, false, true],
  );
  const y = View.allocate(type, packed ? [batch, queries, heads * valueSize] : [batch, heads, queries, valueSize]);
  const result = readNumbers(plain!);
  const ordered = new Float64Array(result.length);
  for (let sample = 0, from = 0; sample < batch; sample++)
    for (let head = 0; head < heads; head++)
      for (let row = 0; row < queries; row++)
        for (let i = 0; i < valueSize; i++, from++)
          ordered[
            packed
              ? (sample * queries + row) * heads * valueSize + head * valueSize + i
              : ((sample * heads + head) * queries + row) * valueSize + i
          ] = result[from];
  writeNumbers(y, ordered);
  const probabilities = readNumbers(weights!);
  const sums = fill("float32", [batch, heads, room], () => 0);
  for (let head = 0; head < batch * heads; head++)
    for (let row = 0; row < queries; row++)
      for (let key = 0; key < room; key++)
        (sums.data as Float32Array)[head * room + key] += probabilities[(head * queries + row) * room + key];
  const text = `seed ${seed}: ${layout} ${cacheType} blocks of ${blockSize}, ${batch} × ${heads}/${kvHeads} heads of ${size}/${valueSize}, ${queries} queries, lengths ${lengths.join()}${perHeadTables ? ", a table a head" : ""}${causal ? ", causal" : ""}, window ${left}/${right}${sinks === undefined ? "" : ", sinks"}`;
  return {
    text,
    attrs,
    inputs,
    y,
    sums,
    tolerance: type === "float32" ? 2e-5 : type === "float16" ? 2 ** -9 : 2 ** -6,
  };
}
