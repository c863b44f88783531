// Presents that stay inside on devices: one whose memory nobody can look into, and WebGPU where there is one. What is fed back goes on in
// place; everything else is brought out first.
import { describe, expect, test } from "vitest";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { backends } from "../../src/entry/backends.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { ModelSource } from "../../src/session/load.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";
import { noWebgpu } from "../support/backends.js";
import { exportedBytes } from "../support/exported-decoders.js";
import { opaqueBackend } from "../support/opaque-backend.js";
import { Client, difference, materialized, type Past } from "./handle-client.js";
import { soak } from "../support/soak.js";
import type { AnyBackend } from "../support/any-backend.js";

const choices = [{ name: "opaque", load: async () => opaqueBackend }, ...backends];

class TestedSession extends Session {
  static async create(source: ModelSource, options?: AnyBackend): Promise<TestedSession> {
    return new TestedSession(await Session.prepare(source, nodePlatform, choices, options as SessionOptions));
  }
}

const published = writeModel(publishedDecoder({ ...smallPublishedSizes, layers: 1 }, { type: "float32" }));
const open = async (backend: string, bytes = published, presents: "keep" | "copy" = "keep"): Promise<Client> =>
  new Client(await TestedSession.create(bytes, { backend, presents }));

const tokens = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, at) => ((from + at) * 37 + 11) % 90);

describe.each(["opaque", "webgpu"])("%s", (backend) => {
  // Shaders that a program runs are slow: the soak has the rest.
  const isSampled = backend === "webgpu" && !soak;
  describe.skipIf(backend === "webgpu" && noWebgpu !== undefined)("presents", () => {
    test("a loop goes on in place; what was left on the way can be read, and gone on from", async () => {
      const [ours, theirs] = [await open(backend), await open("reference", published, "copy")];
      const trunk: (readonly [Past, Past])[] = [[ours.empty(), theirs.empty()]];
      for (const count of [4, 1, 3, 1, 1]) {
        const [past, carried] = trunk.at(-1)!;
        const rows = [tokens(past.rows, count)];
        const steps = [await ours.run(rows, past), await theirs.run(rows, carried)] as const;
        expect(await difference({ ...steps[0], tensors: {} }, { ...steps[1], tensors: {} }, 2e-4)).toBe("");
        for (const tensor of Object.values(steps[0].tensors)) {
          expect(tensor.location).toBe("gpu-buffer");
          expect(() => tensor.data).toThrow(/getData/);
        }
        trunk.push(steps);
      }
      expect(ours.runs).toMatchObject({ started: 1, continued: 4, copied: 0, forked: 0, imported: 0, movedBytes: 0 });
      for (const [past, carried] of trunk.slice(1)) {
        const steps = [await ours.run([[6]], past), await theirs.run([[6]], carried)] as const;
        expect(await difference(...steps, 2e-4)).toBe("");
      }
      expect(ours.runs).toMatchObject({ forked: 4, continued: 5, copied: 0 });
    });

    test.skipIf(isSampled)("mixed ones, another session's, ones made by hand, and masks that hide rows", async () => {
      const llama = exportedBytes("llama_op24");
      const [ours, other] = [await open(backend, llama), await open(backend, llama)];
      const [theirs, plain] = [await open("reference", llama, "copy"), await open(backend, llama, "copy")];
      const [a, b] = [await ours.run([tokens(0, 4)], ours.empty()), await ours.run([tokens(50, 4)], ours.empty())];
      const c = await other.run([tokens(0, 4)], other.empty());
      const [x, y] = [
        await theirs.run([tokens(0, 4)], theirs.empty()),
        await theirs.run([tokens(50, 4)], theirs.empty()),
      ];
      const names = Object.keys(a.tensors);
      const mix = (first: Past, second: Past): Past => ({
        rows: 4,
        tensors: Object.fromEntries(names.map((name, at) => [name, (at % 2 === 0 ? first : second).tensors[name]])),
      });
      const tried: readonly (readonly [Client, Past, Past])[] = [
        [ours, mix(a, b), mix(x, y)],
        [ours, mix(a, c), x],
        [ours, c, x],
        [plain, a, x],
        [ours, await materialized(a), x],
        [ours, a, x],
      ];
      for (const [client, past, carried] of tried) {
        const steps = [await client.run([[6]], past), await theirs.run([[6]], carried)] as const;
        expect(await difference(...steps, 2e-4)).toBe("");
      }
      const hidden = { mask: [1, 0, 1, 1, 1] };
      const steps = [await ours.run([[6]], a, hidden), await theirs.run([[6]], x, hidden)] as const;
      expect(await difference(...steps, 2e-4)).toBe("");
    });

    test.skipIf(isSampled)("two runs at once from one present", async () => {
      const client = await open(backend);
      const past = await client.run([tokens(0, 4)], client.empty());
      const [first, second, third] = await Promise.all([[1], [2], [1]].map((row) => client.run([row], past)));
      expect(await difference(third, first, 0)).toBe("");
      const theirs = await open("reference", published, "copy");
      const carried = await theirs.run([tokens(0, 4)], theirs.empty());
      expect(await difference(second, await theirs.run([[2]], carried), 2e-4)).toBe("");
    });
  });
});
