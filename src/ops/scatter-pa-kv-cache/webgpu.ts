/** ScatterPaKvCache on WebGPU: one slot a token, in every layout and type. What compresses stays on the host. */
import { type CallOf, isInPlace, type Operand } from "../../graph/kernel.js";
import { traitsOf } from "../../tensor/element-type.js";
import { invocationsOf, variable } from "../../webgpu-kernels/shader-part.js";
import { type WebgpuKernel, webgpuKernel, type WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { type PagedLayout, slotsOf } from "../shared/paged/layouts.js";
import { moveRows, placeOf, unitAt, unitElement, unitOf, writeUnit, writtenElement } from "../shared/webgpu/rows.js";
import { slotsOfTokens, slotsPart } from "../shared/webgpu/slots.js";
import { ScatterPaKvCache } from "./op.js";

type Call = CallOf<typeof ScatterPaKvCache>;

/** Rows and the cache that they go into, before and after. */
interface Side {
  readonly rows: Operand;
  readonly past: Operand;
  readonly present: Operand | undefined;
}

/** Keys, and values where there are some. */
function sidesOf({ inputs, outputs }: Call): readonly Side[] {
  const { key, key_cache, value, value_cache } = inputs;
  const keys = { rows: key, past: key_cache, present: outputs.key_cache };
  return value === undefined || value_cache === undefined
    ? [keys]
    : [keys, { rows: value, past: value_cache, present: outputs.value_cache }];
}

/** Copies vectors into the slots of the caches. */
export const scatterPages: WebgpuKernel = webgpuKernel([ScatterPaKvCache], {
  accepts(call) {
    const { scatter_mode: mode } = call.attrs;
    if (mode !== "None" && mode !== "NHSD") return `scatter_mode "${mode}" is left to the reference implementation`;
    const { compress_lens, compress_seq_offset, seq_lens, slot_mapping: slots } = call.inputs;
    if ([compress_lens, compress_seq_offset, seq_lens].some((operand) => operand !== undefined))
      return "compressing is left to the reference implementation";
    if (!slots.contiguous) return "slot_mapping has gaps";
    for (const { rows, past, present } of sidesOf(call)) {
      if (past.shape.length === 0) return "a cache is left out";
      if (present === undefined) return "an output is not asked for";
      if (!rows.contiguous || !past.contiguous) return "a cache or its rows have gaps";
      if (rows.place.buffer === present.place.buffer) return "the rows lie in the cache itself";
    }
    return true;
  },
  record(call, recorder) {
    const { slot_mapping: slots } = call.inputs;
    const layout = call.attrs.scatter_mode === "NHSD" ? "NHSD" : call.attrs.cache_mode;
    for (const { past, present } of sidesOf(call))
      if (!isInPlace(past, present!)) {
        const copy = { name: "copyCache", type: past.type, shape: past.shape };
        const ends = { source: placeOf(past), target: placeOf(present!) };
        for (const dispatch of moveRows({ ...copy, ...ends }, recorder.device)) recorder.dispatch(dispatch);
      }
    const sides = sidesOf(call).map(({ rows, present }) => ({ rows, cache: present! }));
    // What a dispatch writes, nothing else of it may lie in.
    const buffers = sides.flatMap(({ rows, cache }) => [rows.place.buffer, cache.place.buffer]);
    const isApart = sides.every(
      ({ cache: { place } }) => buffers.filter((buffer) => buffer === place.buffer).length === 1,
    );
    for (const together of isApart ? [sides] : sides.map((side) => [side])) scatter(together, slots, layout, recorder);
  },
});

/** Caches are written by one dispatch: first the units of keys, then those of values. */
function scatter(
  sides: readonly { readonly rows: Operand; readonly cache: Operand }[],
  slots: Operand,
  layout: PagedLayout,
  recorder: WebgpuRecorder,
): void {
  const tokens = slots.shape[0];
  const written = sides
    .map((side) => writeOf(side, tokens, layout))
    .filter(({ count }) => count > 0)
    .map((write, at) => ({ ...write, at }));
  if (written.length === 0) return;
  const total = written.reduce((sum, { count }) => sum + count, 0);
  const places = slotsOfTokens(slots, tokens, recorder);
  const vectors = written.map(({ at, unit, rows }) => variable(`vectors${at}`, rows, { element: unitElement(unit) }));
  const caches = written.map(({ at, unit, cache }) =>
    variable(`cache${at}`, cache, { writes: true, element: writtenElement(unit) }),
  );
  const code = written
    .map(
      ({ at, unit }) => `
fn write${at}(index: u32) {
  let inner = index % p.units${at};
  let piece = index / p.units${at} % p.pieces${at};
  let token = index / (p.units${at} * p.pieces${at});
  let slot = slotOf(token);
  if (slot < 0) { return; }
  let t = p.target${at} + u32(slot) / p.blockSize${at} * p.block${at} + u32(slot) % p.blockSize${at} * p.row${at} + piece * p.step${at} + inner;
  ${writeUnit(unit, `cache${at}`, "t", unitAt(unit, vectors[at], `p.source${at} + index`))}
}`,
    )
    .join("");
  recorder.dispatch(
    invocationsOf(recorder.device, {
      name: "scatterPages",
      parts: [...caches, ...vectors, slotsPart(places), { code }],
      count: total,
      body: written
        .map(({ at }) =>
          at === 0
            ? "  if (index < p.count0) { write0(index); }"
            : "  if (index >= p.count0 && index < p.count0 + p.count1) { write1(index - p.count0); }",
        )
        .join("\n"),
      parameters: {
        tokens,
        ...Object.fromEntries(
          written.flatMap(({ at, parameters }) =>
            Object.entries(parameters).map(([name, value]) => [`${name}${at}`, value] as const),
          ),
        ),
      },
    }),
  );
}

/** What writing one side's vectors takes, counted in the largest units that they lie in. */
function writeOf(
  { rows, cache }: { readonly rows: Operand; readonly cache: Operand },
  tokens: number,
  layout: PagedLayout,
): {
  readonly rows: Operand;
  readonly cache: Operand;
  readonly unit: number;
  readonly count: number;
  readonly parameters: Readonly<Record<string, number>>;
} {
  const { blockSize, blockStep, rowStep, pieces, length, step } = slotsOf(layout, cache.shape);
  const [source, target] = [rows.place.offset, cache.place.offset];
  const bytes = traitsOf(cache.type).bits / 8;
  const unit = unitOf(bytes, [blockStep, rowStep, length, step, source, target]);
  const units = (elements: number): number => (elements * bytes) / unit;
  const count = tokens * pieces * units(length);
  return {
    rows,
    cache,
    unit,
    count,
    parameters: {
      count,
      pieces,
      units: units(length),
      blockSize,
      block: units(blockStep),
      row: units(rowStep),
      step: units(step),
      source: units(source),
      target: units(target),
    },
  };
}
