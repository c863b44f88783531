// Sessions beside each other on one GPU: two to five are made, run, forked, saved, refused, left alone and released in random orders, some of
// them with memory that fails; each says what it says alone, which the reference implementation tells with caches carried by hand. A few
// orders in the tests, 2,000 in the soak; INSITU_SEED is the first, INSITU_ORDERS how many.
import { describe, expect, test } from "vitest";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { InsituError } from "../../src/base/error.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { Session } from "../../src/session/session.js";
import { Chance } from "../state/chance.js";
import { noWebgpu } from "../support/backends.js";
import { largestDifference } from "../support/compare.js";
import { deviceOf, PlacedSession, proxied } from "../support/gpu.js";
import { Actor, type Stage } from "./beside/actor.js";
import { cachedModels, concatModel, decoderBytes, logitsAfter, scatterModel } from "./beside/models.js";
import { writeScript } from "./beside/script.js";
import { soak } from "../support/soak.js";

const first = Number(process.env["INSITU_SEED"] ?? 1);
const orders = Number(process.env["INSITU_ORDERS"] ?? (soak ? 2000 : 12));
const perTest = 100;

/** Bytes of buffers that are there, and those of the sessions whose memory fails in the middle. */
let bytes = 0;
let doomed: GPUBuffer[] = [];

const gpu = deviceOf((device) =>
  proxied(device, {
    createBuffer: (descriptor: GPUBufferDescriptor) => {
      const label = descriptor.label ?? "";
      // A buffer to be mapped that shaders write: WebGPU refuses it.
      if (label.includes("stillborn")) return device.createBuffer({ ...descriptor, usage: 1 | 128 });
      const buffer = device.createBuffer(descriptor);
      const destroy = buffer.destroy.bind(buffer);
      let there = true;
      bytes += descriptor.size;
      buffer.destroy = () => {
        if (there) bytes -= descriptor.size;
        there = false;
        return destroy();
      };
      if (label.includes("doomed")) doomed.push(buffer);
      return buffer;
    },
  }),
);
const platform = PlacedSession.place(gpu);

const negative = writeModel(
  buildModel({
    opset: 24,
    inputs: [value("x", "float32")],
    outputs: [value("y", "float32")],
    nodes: [node("Neg", ["x"], ["y"])],
  }),
);

/** A text on pages: read in parts, forked and gone back, with what a text that is read at once says. */
async function playPages(name: string, chance: Chance): Promise<string[]> {
  const wrong: string[] = [];
  const session = await PlacedSession.on(platform, decoderBytes, { inPlace: "require", change: pages() });
  const state = new PagedState(session, { blocks: 12, blockSize: 4 });
  const texts = [{ sequence: state.add(), tokens: [] as readonly number[] }];
  let released: Promise<void> | undefined;
  for (let count = 2 + chance.below(5); count > 0; count--) {
    const text = chance.oneOf(texts);
    const kind = chance.below(5);
    if (kind === 0 && texts.length < 3) texts.push({ sequence: text.sequence.fork(), tokens: text.tokens });
    else if (kind === 1 && text.tokens.length > 1) {
      text.tokens = text.tokens.slice(0, 1 + chance.below(text.tokens.length));
      text.sequence.truncate(text.tokens.length);
    } else if (text.tokens.length < 10) {
      const added = Array.from({ length: 1 + chance.below(2) }, () => chance.below(32));
      const reading = state.step([{ sequence: text.sequence, tokens: added }]);
      text.tokens = [...text.tokens, ...added];
      const isLast = count === 1 && chance.of(0.5);
      // One that had not begun when its session went is refused; one that had says what it says.
      if (isLast) released = session.release();
      try {
        const [{ last }] = await reading;
        if (!(largestDifference(last, await logitsAfter(text.tokens)) < 1e-4))
          wrong.push(`${name}: ${text.tokens.join()}`);
      } catch (error) {
        if (!isLast || !(error instanceof InsituError) || error.code !== "released")
          wrong.push(`${name}: ${String(error)}`);
      }
    }
    if (chance.of(0.5)) await new Promise((done) => setImmediate(done));
  }
  await (released ?? session.release());
  return wrong;
}

/** One order; what was wrong in it. */
async function playOrder(seed: number, listener: Session): Promise<{ wrong: readonly string[]; compared: number }> {
  const chance = new Chance(seed);
  const stage: Stage = {
    open: (model, options) => PlacedSession.on(platform, model, options),
    heard: async (tensor) => {
      const { y } = await listener.run({ x: tensor });
      return (y.data as Float32Array).map((each) => -each);
    },
  };
  const names = Object.keys(cachedModels);
  const playing: (() => Promise<Actor | readonly string[]>)[] = [];
  for (let count = 2 + chance.below(4); count > 0; count--) {
    const own = new Chance(seed * 64 + count);
    const kind = chance.below(12);
    const play = async (actor: Actor, script: Parameters<Actor["play"]>[0], dies?: number): Promise<Actor> => {
      await actor.play(script, (at) => {
        if (at === dies) for (const buffer of doomed.splice(0)) buffer.destroy();
      });
      return actor;
    };
    if (kind === 0) playing.push(() => playPages(`pages ${count}`, own));
    else if (kind <= 2) {
      const past = kind === 1 ? "stillborn" : "doomed";
      const model = chance.of(0.5) ? concatModel(past) : scatterModel(past);
      const script = await writeScript(own, model);
      const dies = kind === 1 ? undefined : own.below(script.length);
      playing.push(() => play(new Actor(`${past} ${count}`, model, own, stage, true), script, dies));
    } else {
      const name = chance.oneOf(names);
      const script = await writeScript(own, cachedModels[name]);
      playing.push(() => play(new Actor(`${name} ${count}`, cachedModels[name], own, stage), script));
    }
  }
  const played = await Promise.all(playing.map((play) => play()));
  doomed = [];
  return {
    wrong: played.flatMap((each) => (each instanceof Actor ? each.wrong : each)),
    compared: played.reduce((sum, each) => sum + (each instanceof Actor ? each.compared : 1), 0),
  };
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  test.each(Array.from({ length: Math.ceil(orders / perTest) }, (_, at) => first + at * perTest))(
    "every session says what it says alone, seeds from %i",
    async (from) => {
      const listener = await PlacedSession.on(platform, negative);
      let compared = 0;
      const most = Math.min(from + perTest, first + orders);
      for (let seed = from; seed < most; seed++) {
        const { wrong, compared: own } = await playOrder(seed, listener);
        expect(wrong, `seed ${seed}`).toEqual([]);
        compared += own;
      }
      expect(compared).toBeGreaterThan(10 * (most - from));
      await listener.release();
      expect(bytes).toBe(0);
    },
  );
});
