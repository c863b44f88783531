// Places that lack something: no SIMD, no shared memory, no SharedArrayBuffer, no workers, little address space. Each is told, and the next
// best choice is taken only where the caller allows it. Every case is a process of its own.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { writeModel } from "../../src/onnx/write.js";
import { soak } from "../support/soak.js";

const entry = fileURLToPath(new URL("../../dist/index.node.js", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "insitu-unavailable-"));
afterAll(() => rmSync(folder, { recursive: true }));
const model = join(folder, "decoder.onnx");
writeFileSync(model, writeModel(generatedDecoder(smallSizes)));

interface Outcome {
  readonly error?: string;
  readonly code?: string;
  /** What the caller was told instead. */
  readonly told: readonly string[];
  readonly backend?: string;
  /** How far the logits are from those of the reference. */
  readonly off?: number;
}

interface Case {
  /** Runs before the package is imported. */
  readonly before?: string;
  readonly flags?: readonly string[];
  /** Bytes of address space that the process may have. */
  readonly addressSpace?: number;
}

/** Creates a session without and with leave to fall back; what each came to. */
function outcomes(options: string, { before = "", flags = [], addressSpace }: Case): readonly [Outcome, Outcome] {
  const script = join(folder, "script.mjs");
  writeFileSync(
    script,
    `${before}
     const { InferenceSession, Tensor } = await import(${JSON.stringify(entry)});
     const ids = (...values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
     const decode = async (session) => {
       const state = session.createState({ dims: { batch: 1, capacity: 16 } });
       await session.run({ input_ids: ids(1, 2, 3), position_ids: ids(0, 1, 2) }, { state });
       return (await session.run({ input_ids: ids(4), position_ids: ids(3) }, { state })).logits.data;
     };
     const expected = await decode(await InferenceSession.create(${JSON.stringify(model)}, { backend: "reference" }));
     const outcomes = [];
     for (const more of [{}, { onFallback: (message) => told.push(message) }]) {
       var told = [];
       try {
         const session = await InferenceSession.create(${JSON.stringify(model)}, { ...${options}, ...more });
         const off = Math.max(...(await decode(session)).map((value, at) => Math.abs(value - expected[at])));
         outcomes.push({ told, off });
       } catch (error) {
         outcomes.push({ told, error: error.message, code: error.code });
       }
     }
     console.log(JSON.stringify(outcomes));`,
  );
  const limit = addressSpace === undefined ? "" : `ulimit -v ${Math.floor(addressSpace / 1024)} && `;
  const command = `${limit}exec "${process.execPath}" ${flags.join(" ")} "${script}"`;
  const { status, stdout, stderr } = spawnSync("sh", ["-c", command], { encoding: "utf8", timeout: 240_000 });
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout) as [Outcome, Outcome];
}

const slow = /^backend "reference", which is slow, instead of "wasm": /;
const single = /^one thread instead of several: threads: 2 are not available here: /;

describe("without leave to fall back creating fails; with it the next best choice is told", () => {
  test("no SIMD", () => {
    const [strict, lenient] = outcomes("{}", { before: "WebAssembly.validate = () => false;" });
    const message = 'this engine has no WebAssembly SIMD with threads; use backend: "reference", which is slow';
    expect(strict).toEqual({ told: [], code: "invalid-argument", error: message });
    expect(lenient.told).toEqual([`backend "reference", which is slow, instead of "wasm": ${message}`]);
    expect(lenient.off).toBe(0);
  });

  test("no WebAssembly", () => {
    const [strict, lenient] = outcomes("{}", { before: "delete globalThis.WebAssembly;" });
    expect(strict).toMatchObject({ error: expect.stringMatching(/^this engine has no WebAssembly; use backend/) });
    expect(lenient).toMatchObject({ told: [expect.stringMatching(slow)], off: 0 });
  });

  test("no shared memory", () => {
    const before = `WebAssembly.Memory = class { constructor() { throw new TypeError("shared is not supported"); } };`;
    const [strict, lenient] = outcomes("{ threads: 1, wasm: { relaxedSimd: false } }", { before });
    expect(strict).toMatchObject({
      code: "out-of-memory",
      error: expect.stringMatching(
        /^a shared WebAssembly memory of up to 268435456 bytes is not available here \(shared is not supported\): .*; use backend: "reference", which is slow$/,
      ),
    });
    expect(lenient).toMatchObject({ told: [expect.stringMatching(slow)], off: 0 });
  });

  test.skipIf(process.platform !== "linux")("too little address space", () => {
    const little = { addressSpace: 6e9 };
    // Half of what cannot be had is asked for next, from 4 GiB on in the soak: V8 collects all garbage, twice, before it gives up each of them.
    const most = soak ? 2 ** 32 : 2 ** 29;
    const [strict, lenient] = outcomes(`{ threads: 2, wasm: { memoryBytes: ${most} } }`, little);
    expect(strict).toMatchObject({
      code: "out-of-memory",
      error: expect.stringMatching(/ulimit -v; Node asks for less with --disable-wasm-trap-handler/),
    });
    expect(lenient).toMatchObject({ told: [expect.stringMatching(slow)], off: 0 });
  });

  test("no workers, by Node's permissions", () => {
    const flags = ["--experimental-permission", "--allow-fs-read=*", "--no-warnings"];
    const [strict, lenient] = outcomes("{ threads: 2 }", { flags });
    expect(strict).toMatchObject({
      code: "invalid-argument",
      error: expect.stringMatching(
        /^threads: 2 are not available here: a worker did not start \(.*restricted.*\); ask for threads: 1$/i,
      ),
    });
    expect(lenient.told).toEqual([expect.stringMatching(single)]);
    expect(lenient.off).toBeLessThan(1e-4);
  });
});

describe("what is no lack", () => {
  test("no SharedArrayBuffer by name: one thread needs none, and workers are refused by Node itself", () => {
    const missing = { before: "delete globalThis.SharedArrayBuffer;" };
    for (const outcome of outcomes("{ threads: 1 }", missing)) {
      expect(outcome.told).toEqual([]);
      expect(outcome.off).toBeLessThan(1e-4);
    }
    const [strict, lenient] = outcomes("{ threads: 2 }", missing);
    expect(strict.error).toMatch(/^threads: 2 are not available here: a worker did not start/);
    expect(lenient.told).toEqual([expect.stringMatching(single)]);
    expect(lenient.off).toBeLessThan(1e-4);
  });

  test("a caller's mistake is never made good silently", () => {
    const [strict, lenient] = outcomes("{ threads: 100000 }", {});
    expect([strict.error, lenient.error]).toEqual(
      Array.from(
        { length: 2 },
        () => "option threads must be a whole number from 0 to 64, got 100000; 0 is what the machine has",
      ),
    );
    expect(lenient.told).toEqual([]);
  });
});
