// Runs that are started before the ones before them have answered: each gets what it would get alone.
import { expect, test } from "vitest";
import type { BackendName } from "../../src/entry/backends.js";
import { decoderSession, int64, step, tokenFeeds, tokens } from "../support/decoding.js";

const options = { dims: { batch: 1, capacity: 64 } };

for (const backend of ["wasm", "reference"] satisfies BackendName[]) {
  for (const threads of backend === "wasm" ? [1, 2] : [1]) {
    test(`several runs at once on ${backend}, threads ${threads}, do not disturb each other`, async () => {
      const session = await decoderSession({ backend, threads });
      const prompts = Array.from({ length: 5 }, (_, at) => tokens(at * 7, at * 7 + 3));
      const alone: Float32Array[] = [];
      for (const prompt of prompts) alone.push(await step(session, session.createState(options), prompt));
      const together = await Promise.all(prompts.map((prompt) => step(session, session.createState(options), prompt)));
      expect(together).toEqual(alone);

      const state = session.createState(options);
      const caches = Object.fromEntries(state.names.map((name) => [name, state.get(name)]));
      const lengths = { write_indices: [0], nonpad_kv_seqlen: [3] };
      const feeds = prompts.map((prompt) => ({
        ...tokenFeeds([prompt], [0]),
        ...caches,
        ...Object.fromEntries(Object.entries(lengths).map(([name, values]) => [name, int64(values)])),
      }));
      const functional = await Promise.all(feeds.map((fed) => session.run(fed, ["logits"])));
      functional.forEach(({ logits }, at) =>
        expect((logits.data as Float32Array).slice(-alone[at].length)).toEqual(alone[at]),
      );
      await session.release();
    });
  }
}
