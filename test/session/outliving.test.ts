// Results that outlive their session: presents that stay inside, on every backend, are brought out when it is released, and read, fed and
// disposed of like tensors of the caller's. What they hold is what the reference implementation says with pasts carried by hand.
import { describe, expect, test } from "vitest";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { backends } from "../../src/entry/backends.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { ModelSource } from "../../src/session/load.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";
import { noWebgpu } from "../support/backends.js";
import { Made, PlacedSession } from "../support/gpu.js";
import { opaqueBackend } from "../support/opaque-backend.js";
import { Client, difference, pastDifference, type Step } from "./handle-client.js";
import type { AnyBackend } from "../support/any-backend.js";

class TestedSession extends Session {
  static async create(source: ModelSource, options?: AnyBackend): Promise<TestedSession> {
    const choices = [{ name: "opaque", load: async () => opaqueBackend }, ...backends];
    return new TestedSession(await Session.prepare(source, nodePlatform, choices, options as SessionOptions));
  }
}

const published = writeModel(publishedDecoder({ ...smallPublishedSizes, layers: 1 }, { type: "float32" }));
const open = async (backend: string, presents: "keep" | "copy" = "keep"): Promise<Client> =>
  new Client(await TestedSession.create(published, { backend, presents, threads: 1 }));
const tokens = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, at) => ((from + at) * 37 + 11) % 90);
const tolerance = 2e-4;

/** Steps of one text, and the same on the reference with its pasts carried by hand. */
async function decode(client: Client, counts: readonly number[]): Promise<{ own: Step[]; expected: Step[] }> {
  const theirs = await open("reference", "copy");
  const [own, expected]: Step[][] = [[], []];
  for (const count of counts) {
    const past = own.at(-1) ?? client.empty();
    const rows = [tokens(past.rows, count)];
    own.push(await client.run(rows, past));
    expected.push(await theirs.run(rows, expected.at(-1) ?? theirs.empty()));
  }
  return { own, expected };
}

describe.each(["reference", "wasm", "opaque", "webgpu"])("presents of %s", (backend) => {
  describe.skipIf(backend === "webgpu" && noWebgpu !== undefined)("after the release", () => {
    test("are read, shaped and fed to others, whatever they run on", async () => {
      const client = await open(backend);
      const { own, expected } = await decode(client, [4, 1, 2]);
      expect(client.runs).toMatchObject({ started: 1, continued: 2 });
      // One that nobody has any more is no concern of the others.
      for (const tensor of Object.values(own[1].tensors)) tensor.dispose();
      await client.session.release();
      for (const at of [0, 2]) expect(await pastDifference(own[at], expected[at], tolerance)).toBe("");
      for (const [name, tensor] of Object.entries(own[2].tensors)) {
        expect(tensor.location).toBe("cpu");
        expect(tensor.data).toEqual(await tensor.getData());
        const flat = tensor.reshape([tensor.size]);
        expect(flat.data).toEqual(tensor.data);
        flat.dispose();
        expect(tensor.dims).toEqual(expected[2].tensors[name].dims);
      }
      const theirs = await open("reference", "copy");
      for (const other of backend === "webgpu" ? ["webgpu", "wasm"] : [backend, "wasm"]) {
        const next = await open(other);
        for (const at of [0, 2]) {
          const steps = [await next.run([[6]], own[at]), await theirs.run([[6]], expected[at])] as const;
          expect(await difference(...steps, tolerance), other).toBe("");
        }
        await next.session.release();
      }
      for (const tensor of Object.values(own[0].tensors)) {
        tensor.dispose();
        expect(tensor.location).toBe("none");
      }
    });

    test("are those of runs that were under way, and of what was asked for and not waited for", async () => {
      const client = await open(backend);
      const { own, expected } = await decode(client, [3]);
      const theirs = await open("reference", "copy");
      const reading = Object.values(own[0].tensors).map((tensor) => tensor.getData());
      const running = [[7], [8]].map((row) => client.run([row], own[0]));
      const released = client.session.release();
      await expect(client.run([[1]], own[0])).rejects.toMatchObject({ code: "released" });
      await Promise.all([released, client.session.release()]);
      for (const [at, tensor] of Object.values(expected[0].tensors).entries())
        expect((await reading[at]).length).toBe(tensor.size);
      for (const [at, row] of [[7], [8]].entries())
        expect(await difference(await running[at], await theirs.run([row], expected[0]), tolerance)).toBe("");
      expect(await pastDifference(own[0], expected[0], tolerance)).toBe("");
    });
  });
});

test.skipIf(noWebgpu !== undefined)("a GPU has its memory back, whatever is still held", async () => {
  const made = new Made();
  const session = await PlacedSession.on(PlacedSession.place(made.gpu), published);
  const { own, expected } = await decode(new Client(session), [3, 1]);
  expect(made.bytes).toBeGreaterThan(0);
  await session.release();
  expect(made.bytes).toBe(0);
  expect(await pastDifference(own[1], expected[1], tolerance)).toBe("");
});
