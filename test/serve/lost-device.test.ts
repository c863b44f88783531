// A GPU that goes away under a server: open texts end and say so, nothing hangs, and the model is loaded again.
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { listen, type Listening } from "../../packages/cli/listen.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { CausalLM } from "../../src/entry/node.js";
import type { LanguageModel, LoadLanguageModelOptions } from "../../src/generate/causal-lm.js";
import { writeModel } from "../../src/onnx/write.js";
import type { Engine } from "../../packages/serve/engine.js";
import { createEngine, type EngineOptions } from "../../packages/serve/running/create-engine.js";
import { createServer, oneAtATime, type Server, type ServerOptions } from "../../packages/serve/server.js";
import { hubFolder } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { LosableGpu } from "../support/losable-gpu.js";
import { submit } from "./engine-support.js";
import { MemoryStore } from "./memory-store.js";
import { eventsOf, until } from "./scripted-engine.js";

interface Told {
  readonly error?: { readonly code: string; readonly message: string; readonly type: string };
  readonly choices?: readonly { readonly text: string }[];
  readonly usage?: { readonly prompt_tokens_details: { readonly cached_tokens: number } };
}

/** An engine that compiles what texts need, which is less than what is usual. */
const coldEngine = (lm: LanguageModel, options: EngineOptions = {}): Engine =>
  Object.assign(createEngine(lm, { mostRunning: 2, ...options }), { warm: undefined });

test("a run that never ends holds up neither its text nor others, nor the end of the engine", async () => {
  const lm = await CausalLM.load(undefined, { threads: 1, cache: "paged" });
  let lose: (error: Error) => void = () => {};
  const decoder = Object.assign(lm.pagedDecoder!, { lost: new Promise<Error>((resolve) => void (lose = resolve)) });
  const begin = vi.spyOn(decoder, "begin").mockReturnValue(new Promise(() => {}));
  const engine = createEngine(lm, { mostRunning: 1 });
  const heard = [1, 2, 3].map((token) => submit(engine, { prompt: [token] }));
  await until(() => begin.mock.calls.length > 0);
  const cause = new InsituError("device-lost", "the GPU was lost (in a test)");
  lose(cause);
  await Promise.all(heard.map(({ over }) => over));
  for (const { error } of heard) expect(error).toMatchObject({ code: "device-lost", cause });
  expect(await engine.lost).toBe(cause);
  expect(() => submit(engine, { prompt: [1] })).toThrow("the server's GPU was lost");
  await engine.close();
  vi.restoreAllMocks();
});

test("a state that a run lost is lost for all texts", async () => {
  const lm = await CausalLM.load(undefined, { threads: 1, cache: "paged" });
  const engine = createEngine(lm, { mostRunning: 1 });
  const cause = new InsituError("state-lost", "a thread ended (in a test)");
  vi.spyOn(lm.pagedDecoder!, "begin").mockRejectedValue(cause);
  const heard = [1, 2].map((token) => submit(engine, { prompt: [token] }));
  await Promise.all(heard.map(({ over }) => over));
  for (const { error } of heard) expect(error).toMatchObject({ code: "state-lost", cause });
  expect(await engine.lost).toBe(cause);
  vi.restoreAllMocks();
  await engine.close();
  await lm.release();
});

/** Sessions that ask alike share a device, for a while after the last of them too: no other suite asks for this one. */
const ownDevice = { backend: "webgpu", webgpu: { powerPreference: "low-power", f16: false } } as const;

describe.skipIf(noWebgpu !== undefined)("on a GPU that goes away", () => {
  let folder: ReturnType<typeof hubFolder>;
  let gpu: LosableGpu;
  let server: Server | undefined;
  let listening: Listening | undefined;
  let lines: string[] = [];
  let loads = 0;

  const load = (more: LoadLanguageModelOptions = {}): Promise<CausalLM> => {
    loads++;
    return CausalLM.load(folder.path, { ...ownDevice, context: 64, cache: "paged", blockSize: 4, ...more });
  };

  beforeAll(() => {
    gpu = new LosableGpu();
    folder = hubFolder("llama", {
      "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
      "generation_config.json": { eos_token_id: 256 },
    });
  });
  afterEach(async () => {
    await server?.close();
    await listening?.close();
    [server, listening, lines, loads] = [undefined, undefined, [], 0];
    gpu.onDevice = () => {};
  });
  afterAll(() => {
    gpu?.restore();
    folder?.remove();
  });

  const serve = async (options: ServerOptions = {}, lm = load()): Promise<Server> => {
    const tell = (line: string): void => void lines.push(line);
    server = createServer(lm, { engine: coldEngine, reload: () => load(), tell, ...options });
    listening = await listen(server, "127.0.0.1", 0);
    return server;
  };
  const post = (body: object): Promise<Response> =>
    fetch(`${listening!.address}/v1/completions`, {
      method: "POST",
      body: JSON.stringify({ prompt: [11, 7, 200, 31, 5], max_tokens: 12, temperature: 0, ignore_eos: true, ...body }),
    });
  const textOf = async (body: object = {}): Promise<string> => {
    const response = await post(body);
    const told = (await response.json()) as Told;
    expect(told.error).toBeUndefined();
    return told.choices![0].text;
  };
  const health = async (): Promise<number> => (await fetch(`${listening!.address}/health`)).status;

  test("while it loads; with a stream and a queue: all end with the error, and the next text is the one before", async () => {
    gpu.onDevice = () => void (gpu.opened === 1 && setTimeout(() => gpu.lose()));
    // The sixth text behind the first one, of which two are made at a time, takes the device away.
    let submitted = 0;
    const engine = (lm: LanguageModel): Engine => {
      const cold = coldEngine(lm);
      const submitText = cold.submit.bind(cold);
      const submit: Engine["submit"] = (...given) => {
        if (++submitted === 7) gpu.lose();
        return submitText(...given);
      };
      return Object.assign(cold, { submit });
    };
    const { ready } = await serve({ engine });
    expect(await health()).toBe(503);
    await ready;
    expect(loads).toBe(2);
    expect(await health()).toBe(200);
    const before = await textOf();
    const stream = await post({ stream: true, max_tokens: 50 });
    const reader = stream.body!.getReader();
    const first = await reader.read();
    const others = Array.from({ length: 5 }, () => post({ max_tokens: 50 }));
    let told = new TextDecoder().decode(first.value);
    for (let next = await reader.read(); !next.done; next = await reader.read())
      told += new TextDecoder().decode(next.value);
    const { error } = eventsOf(told).at(-1) as Told;
    expect(["device-lost", "state-lost"]).toContain(error?.code);
    expect(error).toMatchObject({ type: "service_unavailable_error" });
    const refused = (await Promise.all(others)).filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const response of refused) {
      const { error: refusal } = (await response.json()) as Told;
      expect(response.status).toBe(503);
      expect(response.headers.get("retry-after")).toMatch(/^\d+$/);
      expect(["device-lost", "state-lost", "lost"]).toContain(refusal?.code);
    }
    await until(() => server!.status === "ready");
    expect(await health()).toBe(200);
    expect(await textOf()).toBe(before);
    expect(loads).toBe(3);
    expect(lines.slice(2)).toEqual([
      expect.stringMatching(/lost, and the model is being loaded again \(.*in a test/),
      expect.stringMatching(/^the model was loaded again, [\d.]+ s after it was lost$/),
    ]);
  });

  test("a second loss, one while the model is loaded again, and beginnings that a store has", async () => {
    const store = new MemoryStore();
    const prefixes = { store, fingerprint: "of a test", leastTokens: 4 };
    const { ready } = await serve({ engine: (lm) => coldEngine(lm, { prefixes }) });
    await ready;
    const prompt = Array.from({ length: 24 }, (_, at) => at + 3);
    const before = await textOf({ prompt });
    await until(() => store.values.size >= 6);
    const opened = gpu.opened;
    // The second device is lost while weights are brought there.
    gpu.onDevice = () => void (gpu.opened === opened + 1 && setTimeout(() => gpu.lose()));
    for (const losses of [1, 2]) {
      gpu.lose();
      await until(() => server!.status === "lost");
      expect(await health()).toBe(503);
      const refused = await post({});
      expect([refused.status, Number(refused.headers.get("retry-after")) >= 5]).toEqual([503, true]);
      expect(await refused.json()).toMatchObject({
        error: { code: "lost", message: expect.stringContaining("again") as string },
      });
      await until(() => server!.status === "ready");
      const response = await post({ prompt });
      const told = (await response.json()) as Told;
      expect(told.choices![0].text, `loss ${losses}`).toBe(before);
      expect(told.usage!.prompt_tokens_details.cached_tokens).toBe(20);
    }
    expect(loads).toBe(4);
    // The one in between ends the load, or comes when that is done: a load that failed, or a loss like the others.
    expect(
      lines.filter((line) => /^the model could not be loaded again: |is being loaded again/.test(line)),
    ).toHaveLength(3);
  });

  test("without a way to load it again the server says so, once, and refuses; one that closes waits for no load", async () => {
    const none = createServer(load(), { tell: (line) => void lines.push(line), engine: (lm) => oneAtATime(lm) });
    const failed: string[] = [];
    const closing = createServer(load(), {
      engine: coldEngine,
      tell: (line) => void failed.push(line),
      reload: () => Promise.reject(new Error("no GPU is left (in a test)")),
    });
    [server, listening] = [none, await listen(none, "127.0.0.1", 0)];
    await Promise.all([none.ready, closing.ready]);
    const texts = [post({ max_tokens: 50 }), post({ max_tokens: 50 })];
    await until(() => none.status === "ready");
    await textOf({ max_tokens: 1 });
    gpu.lose();
    for (const response of await Promise.all(texts)) expect([200, 503]).toContain(response.status);
    await until(() => none.status === "lost");
    expect(await health()).toBe(503);
    for (const response of [await post({}), await post({})])
      expect(await response.json()).toMatchObject({
        error: { message: "the GPU was lost, and this server cannot load its model again: it has to be restarted" },
      });
    expect(lines).toHaveLength(1);
    await until(() => failed.length > 1);
    expect(failed[1]).toBe("the model could not be loaded again: no GPU is left (in a test)");
    await closing.close();
    expect(closing.status).toBe("closed");
  });

  test("generate and generateBatch reject, on linear caches and on pages", async () => {
    const models = await Promise.all([load(), CausalLM.load(folder.path, { ...ownDevice, context: 64 })]);
    const failure = async (texts: AsyncIterable<unknown>): Promise<unknown> => {
      try {
        for await (const _ of texts);
        return undefined;
      } catch (error) {
        return error;
      }
    };
    const options = { maxTokens: 56, ignoreEnd: true };
    const lost = { code: expect.stringMatching(/^(device|state)-lost$/) as string };
    let tokens = 0;
    async function* losing(lm: CausalLM): AsyncGenerator<void> {
      for await (const _ of lm.generate([1, 2, 3], options)) {
        if (++tokens === 3) gpu.lose();
        yield;
      }
    }
    const texts = models.flatMap((lm) => [
      failure(losing(lm)),
      failure(
        lm.generateBatch(
          [
            [4, 5],
            [6, 7, 8],
          ],
          options,
        ),
      ),
    ]);
    for (const error of await Promise.all(texts)) expect(error).toMatchObject(lost);
    for (const lm of models) {
      expect(await failure(lm.generate([1, 2, 3], options))).toMatchObject(lost);
      await lm.release();
    }
  });
});
