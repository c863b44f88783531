/**
 * Attention of many queries where subgroups multiply matrices together: float16 rows, scores and sums in float32, weights rounded to float16. As in
 * attention-prefill, a workgroup holds a tile of rows that share a key head and walks the keys that any of them sees, a tile at a time. Queries and
 * sums stay in matrices; a row's greatest score may lag behind by `slack`, so that sums are seldom scaled anew. A value that is not finite reaches every
 * row of a tile in which any row sees it. Which sizes fit a device, and the dispatch; the shader is in attention-matrices-shader.
 */
import type { DeviceTraits, SubgroupMatrix, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf } from "../../../webgpu-kernels/shader-part.js";
import { packing } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  type CacheRows,
  outputPart,
  queryPart,
  rowsPart,
  scorePart,
  sinkPart,
  visiblePart,
} from "./attention-parts.js";
import { gap, layoutOf, matricesCode, type Shape, type Sizes } from "./attention-matrices-shader.js";
import { onlySeveral, queryTiles, tileSight } from "./packed-batch.js";
import { matrixExtensions } from "./product-matrices.js";

/** Elements of a row that registers hold. */
const mostSize = 128;

/** Tried in this order where there are many workgroups: twice the rows share what is brought into workgroup memory. */
const wide: Shape = { subgroups: 8, keys: 32 };
const narrow: readonly Shape[] = [
  { subgroups: 4, keys: 64 },
  { subgroups: 4, keys: 32 },
];

const bytesOf = ({ keys, rows, halves }: Sizes): number => 2 * halves + 4 * rows * (keys + gap) + 4 * rows + 16;

function sizesOf({ query, value }: AttentionWork, shape: Shape, matrix: SubgroupMatrix): Sizes {
  const { subgroups, keys } = shape;
  const rows = subgroups * matrix.rows;
  const strip = Math.min(rows, 4 * matrix.rows);
  const weights = keys * (Math.max(query.size, value.size) + gap);
  return {
    ...shape,
    rows,
    strip,
    weights,
    halves: Math.max(strip * (query.size + gap), weights + rows * (keys + gap)),
  };
}

/** True if rows begin and lie apart by eights of elements, and lie together. */
export const hasEights = ({ offset, sample, head, row, pages }: CacheRows): boolean =>
  [offset, sample, head, row, pages?.block ?? 0].every((step) => step % 8 === 0) && (pages?.piece ?? 0) === 0;

/** The sizes in which the device computes it so; undefined where it does not. */
function sizesFor(work: AttentionWork, device: DeviceTraits): Sizes | undefined {
  const { query, key, value, mask } = work;
  const { subgroup, subgroupMatrix, workgroupBytes, mostInvocations, tuning } = device;
  if (subgroup === undefined || subgroupMatrix === undefined || subgroup % subgroupMatrix.rows !== 0) return undefined;
  // Matrices multiply what a mask hides by zero, and it may hold anything.
  if (mask !== undefined) return undefined;
  for (const rows of [query, key, value] as const)
    if (rows.type !== "float16" || rows.size % 16 !== 0 || rows.size > mostSize || !hasEights(rows)) return undefined;
  const large = sizesOf(work, wide, subgroupMatrix);
  const { count, samples } = queryTiles(work, large.rows);
  const isMany =
    count * key.heads * samples >= tuning.manyRows.manyAttentions && wide.subgroups * subgroup <= mostInvocations;
  return [...(isMany ? [large] : []), ...narrow.map((shape) => sizesOf(work, shape, subgroupMatrix))].find(
    (sizes) => bytesOf(sizes) <= workgroupBytes,
  );
}

/** Records the dispatch where the device computes it so; else false. */
export function recordInMatrices(work: AttentionWork, recorder: WebgpuRecorder): boolean {
  const { query, key, value } = work;
  const { device } = recorder;
  const sizes = sizesFor(work, device);
  if (sizes === undefined) return false;
  const group = query.heads / key.heads;
  const tiles = queryTiles(work, sizes.rows);
  recorder.dispatch(
    dispatchOf({
      name: "attentionInMatrices",
      parts: [
        packing,
        queryPart(work, 8),
        rowsPart("key", key, { width: 8 }),
        rowsPart("value", value, { width: 8 }),
        visiblePart(work),
        scorePart(work),
        sinkPart(work),
        outputPart(work),
        { code: tiles.code },
      ],
      extensions: matrixExtensions,
      code: matricesCode(layoutOf(work, sizes, device.subgroupMatrix!, device.subgroup!), tileSight(tiles, sizes.rows)),
      parameters: { group, groupRows: group * query.rows, scale: { float: work.scale } },
      workgroups: [tiles.count, key.heads, tiles.samples],
      ...onlySeveral(work, recorder),
    }),
  );
  return true;
}
