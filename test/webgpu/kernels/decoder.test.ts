// A decoder's caches on WebGPU: written in place and attended to over a prompt and many steps, against the reference implementation. Spare rows hold NaN.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { InferenceSession } from "../../../src/entry/node.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import type { State } from "../../../src/session/state.js";
import { noWebgpu } from "../../support/backends.js";
import { distance } from "../../support/compare.js";
import { decoderSession, tokenFeeds, tokens } from "../../support/decoding.js";
import { keepDevice } from "../../support/device.js";

const capacity = 80;

/** A state for two samples whose caches hold what no sum may see. */
function poisoned(session: InferenceSession): State {
  const state = session.createState({ dims: { batch: 2, capacity } });
  for (const name of state.names) {
    const { dims } = state.get(name);
    const size = dims.reduce((product, dim) => product * dim, 1);
    state.set(name, new Tensor("float32", new Float32Array(size).fill(NaN), dims));
  }
  return state;
}

async function logitsOf(
  session: InferenceSession,
  state: State,
  rows: readonly (readonly number[])[],
): Promise<Float32Array> {
  const { logits } = await session.run(tokenFeeds(rows, state.lengths), { state });
  return (await logits.getData()) as Float32Array;
}

describe.skipIf(noWebgpu !== undefined)("a decoder on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test("a prompt, steps past a tile, a rewind of one sample", async () => {
    const [wanted, session] = [
      await decoderSession({ backend: "reference" }),
      await decoderSession({ backend: "webgpu" }),
    ];
    const states = [poisoned(wanted), poisoned(session)];
    const apart: number[] = [];
    const both = async (rows: readonly (readonly number[])[]): Promise<void> => {
      const [expected, actual] = [await logitsOf(wanted, states[0], rows), await logitsOf(session, states[1], rows)];
      apart.push(distance(actual, expected));
    };
    await both([tokens(0, 58), tokens(3, 61)]);
    for (const state of states) state.rewind([58, 20]);
    for (let step = 0; step < 10; step++) await both([[step], [step + 7]]);
    expect(Math.max(...apart)).toBeLessThan(1e-4);
    // A device that binds enough at once writes the rows on the way.
    expect(session.explain()).toMatch(/Attention .*by (attentionAtOnce|attentionStepAtOnce)/);
    expect(session.explain()).toMatch(/writes past.0.key in place/);
    await Promise.all([wanted.release(), session.release()]);
  });
});
