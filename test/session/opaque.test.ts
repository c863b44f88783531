// A device whose memory nobody can look into runs what the others run: nothing outside of a backend touches bytes.
import { describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../src/demo/decoder.js";
import { backends } from "../../src/entry/backends.js";
import { nodePlatform } from "../../src/platform/node.js";
import { runCase } from "../../src/conformance/case.js";
import { writeModel } from "../../src/onnx/write.js";
import type { ModelSource } from "../../src/session/load.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { archivedCases } from "../support/archived-cases.js";
import { tokenAt, tokenFeeds, tokens } from "../support/decoding.js";
import { opaqueBackend } from "../support/opaque-backend.js";

const choices = [{ name: "opaque", load: async () => opaqueBackend }, ...backends];

class TestedSession extends Session {
  static async create(source: ModelSource, options?: SessionOptions): Promise<TestedSession> {
    return new TestedSession(await Session.prepare(source, nodePlatform, choices, options));
  }
}

const decoder = writeModel(generatedDecoder(smallSizes));
const open = (backend: string, inPlace: "require" | "prefer" | "never"): Promise<TestedSession> =>
  TestedSession.create(decoder, { backend, inPlace });

async function step(session: Session, state: State, ids: readonly number[]): Promise<Tensor["data"]> {
  const { logits } = await session.run(tokenFeeds([ids], state.lengths), { state });
  return logits.data;
}

describe.each(["require", "prefer", "never"] as const)(
  "a decoder with caches that cannot be read, inPlace: %s",
  (inPlace) => {
    test("prefill, decode, rewind and forks that take turns give the reference's bits", async () => {
      const [device, host] = [await open("opaque", inPlace), await open("reference", inPlace)];
      const dims = { batch: 1, capacity: 24 };
      const pairs = [device, host].map((session) => ({ session, state: session.createState({ dims }) }));
      const both = async (work: (session: Session, state: State) => Promise<Tensor["data"]>): Promise<void> => {
        const [ours, theirs] = await Promise.all(pairs.map(({ session, state }) => work(session, state)));
        expect(ours).toEqual(theirs);
      };
      await both((session, state) => step(session, state, tokens(0, 5)));
      for (let position = 5; position < 9; position++)
        await both((session, state) => step(session, state, [tokenAt(position)]));
      const forks = pairs.map(({ session, state }) => ({ session, state: state.fork() }));
      await both((session, state) => step(session, state, [7]));
      const [ours, theirs] = await Promise.all(forks.map(({ session, state }) => step(session, state, [3])));
      expect(ours).toEqual(theirs);
      for (const { state } of pairs) state.rewind(4);
      await both((session, state) => step(session, state, tokens(4, 8)));
      expect(pairs[0].state.lengths).toEqual(pairs[1].state.lengths);
      expect(pairs[0].state.statistics).toEqual(pairs[1].state.statistics);
    });
  },
);

test("runs that are started at once do not disturb each other", async () => {
  const session = await open("opaque", "require");
  const states = [0, 1, 2].map(() => session.createState({ dims: { batch: 1, capacity: 8 } }));
  const together = await Promise.all(states.map((state, at) => step(session, state, tokens(at, at + 4))));
  const alone = await Promise.all(
    [0, 1, 2].map(async (at) =>
      step(session, session.createState({ dims: { batch: 1, capacity: 8 } }), tokens(at, at + 4)),
    ),
  );
  expect(together).toEqual(alone);
});

test("the KV family of ONNX's suite passes", async () => {
  const family = /attention|tensor_?scatter|linear_attention|causal_conv|flex_?attention|rotary|rms_norm|swiglu/;
  const cases = archivedCases(new URL("../conformance/onnx-node-1.23.1.tar.br", import.meta.url)).filter(({ name }) =>
    family.test(name),
  );
  expect(cases.length).toBeGreaterThanOrEqual(325);
  const every = process.env["INSITU_SOAK"] === undefined ? 5 : 1;
  const problems: string[] = [];
  for (const [at, files] of cases.entries()) {
    if (at % every !== 0) continue;
    const result = await runCase(files, (model) => TestedSession.create(model, { backend: "opaque" }));
    if (result.status !== "passed") problems.push(`${files.name}: ${result.reason}`);
  }
  expect(problems).toEqual([]);
});
