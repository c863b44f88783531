// Presents that stay inside, in decoders of every style that can be rewritten: each run is made twice, once with pasts carried by hand and once
// with the presents as they came, on full masks and on padding, and both give the same.
import { afterAll, describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { backends } from "../../src/entry/backends.js";
import { GrownDecoder } from "../../tools/rewrite-check/decoders.js";
import { analyse } from "../../packages/rewrite/analysis.js";
import { prepareModel } from "../../packages/rewrite/prepare-model.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import type { Feeds } from "../../src/session/feeds.js";
import { Session } from "../../src/session/session.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { compareViews } from "../support/compare.js";
import { styles } from "../rewrite/style-list.js";
import { styledDecoder } from "../rewrite/styles.js";
import { soak } from "../support/soak.js";

/** A session that carries pasts by hand, with another beside it that is fed its own presents. */
class Watched extends Session {
  beside: Session | undefined;
  caches: readonly { readonly input: string; readonly output: string; readonly axis: number }[] = [];
  tolerance = 1e-4;
  /** The other's presents, by the input that they go to. */
  #kept: Record<string, Tensor> = {};

  static async on(bytes: Uint8Array): Promise<Watched> {
    return new Watched(await Session.prepare(bytes, nodePlatform, backends, { presents: "copy" }));
  }

  override async run(feeds: Feeds): Promise<Record<string, Tensor>> {
    const isFirst = this.caches.every(({ input, axis }) => feeds[input].dims[axis] === 0);
    const results = await super.run(feeds);
    const own = await this.beside!.run({ ...feeds, ...(isFirst ? {} : this.#kept) });
    expect(Object.keys(own)).toEqual(Object.keys(results));
    const { tolerance } = this;
    for (const [name, tensor] of Object.entries(results))
      expect(compareViews(own[name].toView(), tensor.toView(), { tolerance }), name).toBe("");
    this.#kept = Object.fromEntries(this.caches.map(({ input, output }) => [input, own[output]]));
    return results;
  }
}

let [inPlace, copied] = [0, 0];

const merged = "two graphs under an If";

/** All of them in a soak. */
const tried = Object.entries(styles).filter(([name], at) => name !== merged && (soak || at % 6 === 4));

describe("decoders in every style", () => {
  for (const [at, [name, style]] of [...tried, [merged, styles[merged]] as const].entries())
    test(name, async () => {
      const model = styledDecoder(style, at % 11);
      const bytes = writeModel(model);
      const watched = await Watched.on(bytes);
      watched.tolerance = style.half === true ? 3e-2 : 1e-4;
      watched.beside = await InferenceSession.create(bytes);
      const told = watched.beside.explain({ json: true }).presents;
      if (told?.kept !== true) {
        copied++;
        return;
      }
      watched.caches = rewrite(model).report.caches;
      const decoder = new GrownDecoder(watched, analyse(prepareModel(model, 24)));
      // GroupQueryAttention takes chunks of one text alone.
      const runs: readonly (readonly [readonly number[], readonly number[]])[] = [
        [[0], [5, 1, 1, 3, 1]],
        [
          [0, 0],
          [4, 1, 1],
        ],
        [
          [2, 0],
          [4, 1],
        ],
      ];
      // Models of fixed sizes take one text, or one token.
      const [samples, tokens] = watched.inputMetadata.find(({ name: input }) => input.startsWith("input"))!.shape;
      for (const [pads, counts] of runs.filter(([{ length }]) => samples !== 1 || length === 1)) {
        decoder.start(pads);
        let next = 0;
        for (const count of tokens === 1 ? counts.map(() => 1) : counts)
          await decoder.run(
            pads.map((_, sample) => Array.from({ length: count }, () => (next++ * 7 + 3 * sample) % 11)),
          );
      }
      const after = watched.beside.explain({ json: true }).presents;
      // A style without a mask says nothing of padding.
      expect(after).toMatchObject({ kept: true, runs: { forked: 0 } });
      const { started = 0, continued = 0 } = after?.kept === true ? after.runs : {};
      expect(started).toBeGreaterThanOrEqual(samples === 1 ? 1 : 2);
      expect(continued).toBeGreaterThanOrEqual(samples === 1 ? 4 : 6);
      inPlace++;
      await watched.beside.release();
      await watched.release();
    });
});

afterAll(() => {
  console.log(`${inPlace} styles kept their presents, ${copied} copied them`);
  expect(inPlace).toBeGreaterThan(copied);
});
