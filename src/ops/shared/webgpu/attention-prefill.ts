/**
 * Attention of many queries: a workgroup holds a tile of rows that share a key head and walks the keys that any of them sees, a tile at a time,
 * with the greatest score and the sum of weights of each row carried along. Which tile fits a device, and the dispatch; the shader is in
 * attention-prefill-shader, and what it does otherwise in float16 in attention-halves.
 */
import type { AttentionTile } from "../../../webgpu-kernels/tuning.js";
import type { DeviceTraits, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf } from "../../../webgpu-kernels/shader-part.js";
import { packing } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  outputPart,
  quadCount,
  queryPart,
  rowsPart,
  scorePart,
  sinkPart,
  visiblePart,
} from "./attention-parts.js";
import { prefillCode, type Sizes, tileOf } from "./attention-prefill-shader.js";
import { halvesTile, scaleInHalves } from "./attention-halves.js";
import { functionsPart } from "./functions.js";
import { onlySeveral, queryTiles, tileSight } from "./packed-batch.js";

/** A tile's sizes for rows of so many quads of values: where those are many, an invocation has fewer rows, so that its sums stay in registers. */
function sizesOf(
  { lines, sides, rowsEach, chunk }: AttentionTile,
  valueQuads: number,
  { subgroup }: Pick<DeviceTraits, "subgroup">,
): Sizes {
  const across = Math.ceil(valueQuads / sides);
  const most = rowsEach * Math.ceil(usualQuads / sides); // quads of sums
  let each = rowsEach;
  while (each > 1 && each * across > most) each /= 2;
  const keys = sides * 4;
  const [rows, pitch] = [lines * each, across * sides];
  const steps = [keys, keys / 2, keys / 4];
  const step = steps.find((count) => count * pitch <= keys * chunk) ?? Math.max(4, keys / 8);
  const weightsPitch = rows + 1;
  return {
    sides,
    lines,
    each,
    rows,
    chunk,
    keysEach: 4,
    keys,
    step,
    across,
    pitch,
    weightsPitch,
    staged: Math.max(rows * chunk, (keys / 4) * weightsPitch),
    rowTile: Math.max(keys * chunk, step * pitch),
    isShuffled: subgroup !== undefined && subgroup >= sides,
  };
}

/** Quads of the rows that tiles are made for. */
const usualQuads = 32;

/** Bytes of workgroup memory. */
const bytesOf = ({ staged, rowTile, isShuffled, rows, sides }: Sizes): number =>
  16 * (staged + rowTile) + 8 * rows + (isShuffled ? 0 : 4 * rows * sides);

/** The sizes of the first tile that fits, else of the last. */
function sizesFor(valueQuads: number, device: DeviceTraits): Sizes {
  const { attentionTiles } = device.tuning.manyRows;
  const all = attentionTiles.map((tile) => sizesOf(tile, valueQuads, device));
  const isFitting = (sizes: Sizes): boolean =>
    bytesOf(sizes) <= device.workgroupBytes && sizes.lines * sizes.sides <= device.mostInvocations;
  return all.find(isFitting) ?? all.at(-1)!;
}

/** Records the dispatch: in float16 where the device computes it so. */
export function recordPrefill(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { query, key, value } = work;
  const group = query.heads / key.heads;
  const halves = halvesTile(work, recorder.device);
  const tile = halves ?? tileOf(work, sizesFor(quadCount(value.size), recorder.device));
  const width = halves ? 8 : 4;
  const tiles = queryTiles(work, tile.rows);
  recorder.dispatch(
    dispatchOf({
      name: halves ? "attentionInHalves" : "attentionPrefill",
      parts: [
        packing,
        queryPart(work, width),
        rowsPart("key", key, { width }),
        rowsPart("value", value, { width }),
        visiblePart(work),
        scorePart(work),
        functionsPart("boundedScores"),
        sinkPart(work),
        outputPart(work),
        { code: tiles.code },
      ],
      extensions: [...(halves ? (["f16"] as const) : []), ...(tile.isShuffled ? (["subgroups"] as const) : [])],
      code: prefillCode(tile, tileSight(tiles, tile.rows)),
      parameters: {
        group,
        groupRows: group * query.rows,
        scale: { float: work.scale },
        ...(halves && scaleInHalves(work.scale)),
      },
      workgroups: [tiles.count, key.heads, tiles.samples],
      ...onlySeveral(work, recorder),
    }),
  );
}
