// /v1/cache tells each key its own texts and blocks, and of others only how many blocks they have; /v1/cache/plan the verdict on every cache.
import { expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { createServer } from "../../packages/serve/server.js";

interface Told {
  readonly block_size: number;
  readonly row_bytes: number;
  readonly uses: string;
  readonly texts: readonly { readonly rows: number; readonly blocks: readonly number[] }[];
}

test("a key sees its own texts in the pool, and of others blocks alone", async () => {
  const lm = await CausalLM.load(undefined, { threads: 1, cache: "paged", blocks: 64 });
  const server = createServer(lm, { apiKeys: ["key-of-one", "key-of-two"] });
  await server.ready;
  const ask = (key: string, path: string, body?: object): Promise<Response> =>
    server.fetch(
      new Request(`http://localhost${path}`, {
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      }),
    );
  const cache = async (key: string): Promise<Told> => (await (await ask(key, "/v1/cache")).json()) as Told;
  expect((await ask("nobody", "/v1/cache")).status).toBe(401);
  expect((await cache("key-of-one")).uses).toBe(".".repeat(64));
  const stream = await ask("key-of-one", "/v1/completions", {
    prompt: "Once upon a time there was a king who had three sons, and the eldest of them said to his father",
    max_tokens: 400,
    ignore_eos: true,
    stream: true,
  });
  const reader = stream.body!.getReader();
  await reader.read();
  const [own, others] = [await cache("key-of-one"), await cache("key-of-two")];
  expect(own.texts).toHaveLength(1);
  const [{ rows, blocks }] = own.texts;
  expect(blocks).toHaveLength(Math.ceil(rows / own.block_size));
  expect(blocks.every((block) => own.uses[block] === "o")).toBe(true);
  expect(own.row_bytes).toBe(lm.pages!.blockBytes / own.block_size);
  expect([others.texts, others.uses.includes("o"), others.uses.includes("x")]).toEqual([[], false, true]);
  await reader.cancel();
  const { data } = (await (await ask("key-of-one", "/v1/cache/plan")).json()) as {
    data: { in_place: boolean; reason: string }[];
  };
  expect(data.length).toBeGreaterThan(0);
  expect(data.every(({ in_place, reason }) => in_place && reason !== "")).toBe(true);
  await server.close();
  await lm.release();
});
