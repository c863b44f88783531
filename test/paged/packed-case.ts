/**
 * Random calls of PagedAttention with query_starts: samples of any number of queries, one behind the other. What must come of one is made sample by
 * sample, each as a call of its own without query_starts.
 */
import { seededRandom } from "../../src/graph/call.js";
import { readNumbers, writeIntegers, writeNumbers } from "../../src/tensor/access.js";
import { View } from "../../src/tensor/view.js";
import { call, type PagedCase, pagedCase } from "./attention-case.js";

/** The case of a seed, and how many queries each sample has. */
export interface PackedCase extends PagedCase {
  readonly queries: readonly number[];
}

/** A packed batch over the pages of the seed's plain case. `most`: the queries of a sample. */
export function packedCase(seed: number, most = 9): PackedCase {
  const plain = pagedCase(seed);
  const random = seededRandom(seed + 7_919);
  const [query, keyCache, valueCache, tables, lengths, ...scales] = plain.inputs as View[];
  const [samples] = tables.shape;
  const headsOf = plain.attrs["q_num_heads"] as number | undefined;
  const heads = headsOf ?? query.shape[1];
  const size = headsOf === undefined ? query.shape[3] : query.shape[2] / heads;
  const kinds: readonly number[] = [0, 1, 1, 1 + Math.floor(random() * most), 1 + Math.floor(random() * most)];
  const drawn = Array.from({ length: samples }, () => kinds[Math.floor(random() * kinds.length)]);
  const queries = drawn.some((count) => count > 0) ? drawn : drawn.with(0, 2);
  const tokens = queries.reduce((sum, count) => sum + count, 0);
  // A batch of 1, or a batch of tokens.
  const batch = random() < 0.5 ? 1 : tokens;
  const rows = tokens / batch;
  const values = Array.from({ length: tokens * heads * size }, () => random() * 4 - 2);
  const wide = headsOf !== undefined;
  const shaped = (of: number): number[] => (wide ? [batch, rows, heads * of] : [batch, heads, rows, of]);
  const placeOf = (token: number, head: number, i: number, of: number): number =>
    wide || rows === 1 ? (token * heads + head) * of + i : (head * tokens + token) * of + i;
  const packed = View.allocate(query.type, shaped(size));
  writeNumbers(packed, values);
  const given = readNumbers(packed);
  const starts = View.allocate(random() < 0.5 ? "int32" : "int64", [samples + 1]);
  const firsts = queries.reduce<number[]>((all, count) => [...all, all.at(-1)! + count], [0]);
  writeIntegers(starts, firsts);

  const valueSize = wide ? plain.y.shape[2] / heads : plain.y.shape[3];
  const y = View.allocate(query.type, shaped(valueSize));
  const result = new Float64Array(y.size);
  const sums = View.allocate("float32", plain.sums.shape);
  const sumData = sums.data as Float32Array;
  for (let sample = 0; sample < samples; sample++) {
    const count = queries[sample];
    if (count === 0) continue;
    const own = View.allocate(query.type, [1, heads, count, size]);
    const asked = Array.from({ length: own.size }, (_, at) => {
      const [head, token, i] = [Math.floor(at / (count * size)), Math.floor(at / size) % count, at % size];
      return given[placeOf(firsts[sample] + token, head, i, size)];
    });
    writeNumbers(own, asked);
    const slice = (view: View): View => view.slice(0, sample, sample + 1);
    const inputs = [own, keyCache, valueCache, slice(tables), slice(lengths), ...scales];
    const { q_num_heads: _q, kv_num_heads: _kv, ...attrs } = plain.attrs;
    const [one, weights] = call("insitu", "PagedAttention", 1, attrs, inputs, [true, true]);
    readNumbers(one!).forEach((value, at) => {
      const [head, token] = [Math.floor(at / (count * valueSize)), Math.floor(at / valueSize) % count];
      result[placeOf(firsts[sample] + token, head, at % valueSize, valueSize)] = value;
    });
    sumData.set(readNumbers(weights!), (sample * sumData.length) / samples);
  }
  writeNumbers(y, result);
  return {
    ...plain,
    text: `${plain.text}, packed ${queries.join()} as [${packed.shape.join()}]`,
    inputs: [packed, keyCache, valueCache, tables, lengths, scales[0], scales[1], starts, scales[3]],
    y,
    sums,
    queries,
  };
}
