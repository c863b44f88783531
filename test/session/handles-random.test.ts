// Presents that stay inside under random use: runs from any earlier past, at once or one after another, with presents read, written, disposed,
// mixed and dropped on the way, with masks that hide any of the rows and positions that jump. Every result is the one that pasts carried by
// hand give.
import { expect, test } from "vitest";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { writeModel } from "../../src/onnx/write.js";
import { exportedBytes } from "../support/exported-decoders.js";
import { Client, difference, materialized, type Otherwise, type Past } from "./handle-client.js";
import { soak } from "../support/soak.js";

const published = writeModel(
  publishedDecoder({ ...smallPublishedSizes, layers: 1, positions: 512 }, { type: "float32" }),
);
const seeds = soak ? 100 : 3;
const first = Number(process.env["INSITU_SEED"] ?? 1);

const trials = Array.from({ length: seeds }, (_, at) => first + at).flatMap((seed, at) => [
  { seed, holes: false },
  ...(at % 3 === 0 ? [{ seed, holes: true }] : []),
]);

test.each(trials)("seed $seed, holes in masks: $holes", async ({ seed, holes }) => {
  const bytes = holes ? exportedBytes("llama_op20_eager") : published;
  const random = seededRandom(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const [ours, theirs] = [
    new Client(await InferenceSession.create(bytes, { presents: "keep" })),
    new Client(await InferenceSession.create(bytes, { presents: "copy" })),
  ];
  /** Pasts of the one, and the same carried by hand. */
  let pasts: (readonly [Past, Past])[] = [[ours.empty(), theirs.empty()]];
  for (let round = 0; round < (holes ? 20 : 40); round++) {
    const asked = Array.from({ length: 1 + below(3) }, () => {
      const from = pasts[below(pasts.length)];
      const count = below(12) === 0 ? (holes ? 20 : 100) : 1 + below(4);
      const otherwise: Otherwise =
        !holes || below(3) === 0
          ? {}
          : {
              mask: Array.from({ length: from[0].rows + count }, (_, row) =>
                Number(row >= from[0].rows || below(4) > 0),
              ),
              positions: Array.from({ length: count }, () => below(60)),
            };
      return { from, rows: [Array.from({ length: count }, () => below(90))], otherwise };
    }).filter(({ from, rows }) => from[0].rows + rows[0].length < (holes ? 64 : 400));
    const results = await Promise.all(asked.map(({ from, rows, otherwise }) => ours.run(rows, from[0], otherwise)));
    for (const [at, { from, rows, otherwise }] of asked.entries()) {
      const expected = await theirs.run(rows, from[1], otherwise);
      // Reading takes a handle's place: the logits of the next runs tell as much.
      const whole = below(6) === 0;
      const [own, other] = whole
        ? [results[at], expected]
        : [
            { ...results[at], tensors: {} },
            { ...expected, tensors: {} },
          ];
      expect(await difference(own, other, 2e-4), `round ${round}`).toBe("");
      pasts.push([results[at], await materialized(expected)]);
    }
    const [a, b] = [pasts[below(pasts.length)], pasts[below(pasts.length)]];
    const names = Object.keys(a[0].tensors);
    switch (below(5)) {
      case 0: {
        if (a[0].rows === 0 || a[0].rows !== b[0].rows) break;
        const mix = (x: Past, y: Past): Past => ({
          ...x,
          tensors: { ...y.tensors, [names[0]]: x.tensors[names[0]] },
        });
        pasts.push([mix(a[0], b[0]), mix(a[1], b[1])]);
        break;
      }
      case 1:
        if (a[0].rows === 0) break;
        for (const past of a) (past.tensors[names[1]].data as Float32Array)[0] = 0.25;
        break;
      case 2:
        // What shares a tensor with it goes too.
        if (a[0].rows === 0) break;
        pasts = pasts.filter(([{ tensors }]) => names.every((name) => tensors[name] !== a[0].tensors[name]));
        for (const tensor of Object.values(a[0].tensors)) tensor.dispose();
        break;
      default:
        if (pasts.length > 8) pasts = [pasts[0], ...pasts.slice(-6)];
    }
  }
  expect(ours.runs!.continued).toBeGreaterThan(0);
  expect(ours.runs!.forked).toBeGreaterThan(0);
  expect(ours.runs!.copied).toBe(0);
});
