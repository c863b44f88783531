// Memory is told before a model is loaded: what `inspect` says is within 15 % of what a fresh process has once a text of that length was made.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";
import { writeModelFolder } from "../../tools/bench/device/model-files.js";
import type { MemoryForecast } from "../../packages/cli/inspect-memory.js";
import { publishedDecoder, type PublishedForm, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "insitu-memory-"));
afterAll(() => rmSync(folder, { recursive: true }));

const inFreshProcess = (...args: string[]): string =>
  execFileSync(process.execPath, args, { encoding: "utf8", maxBuffer: 2 ** 26 });

/** What is resident behind a text of so many tokens. */
const residentAfter = (model: string, tokens: number): number =>
  Number(
    inFreshProcess(
      "--input-type=module",
      "--eval",
      `import { CausalLM } from ${JSON.stringify(pathToFileURL(join(root, "dist/lib/index.node.js")).href)};
       const lm = await CausalLM.load(${JSON.stringify(model)}, { context: ${tokens} });
       const prompt = Array.from({ length: ${tokens - 4} }, (_, at) => 1 + (at * 7) % 100);
       for await (const _ of lm.generate(prompt, { maxTokens: 4, temperature: 0, ignoreEnd: true }));
       console.log(process.memoryUsage.rss());
       await lm.release();`,
    ),
  );

const forecastOf = (model: string, tokens: number): MemoryForecast =>
  (
    JSON.parse(
      inFreshProcess(join(root, "dist/lib/cli.js"), "inspect", model, "--context", String(tokens), "--json"),
    ) as { readonly memory: MemoryForecast }
  ).memory;

/** A decoder whose weights take tens of megabytes, most of them in its embedding. */
function madeModel(name: string, form: PublishedForm): string {
  const sizes = {
    ...smallPublishedSizes,
    layers: 3,
    hidden: 512,
    intermediate: 1024,
    vocabulary: 20_000,
    positions: 1024,
  };
  const place = join(folder, name);
  mkdirSync(place);
  writeModelFolder(place, publishedDecoder(sizes, form), sizes, "qwen3");
  return place;
}

const int4 = { bits: 4, blockSize: 32, accuracyLevel: 4 } as const;

test
  .runIf(process.platform === "linux")
  .each([
    ["the embedded model", () => join(root, "models/embedded"), 256],
    [
      "4 bits, the embedding in floats",
      () => madeModel("unpacked", { type: "float32", weights: int4, embeddings: "unpacked" }),
      64,
    ],
    ...(!soak
      ? []
      : [
          [
            "4 bits, tied",
            () => madeModel("tied", { type: "float32", weights: int4, embeddings: "tied" }),
            1000,
          ] as const,
        ]),
  ] as const)("%s", (_name, made, tokens) => {
  const model = made();
  const { residentBytes, weightBytes, tableBytes, cacheBytes, arenaBytes, processBytes, context } = forecastOf(
    model,
    tokens,
  );
  expect(context).toBe(tokens);
  expect(residentBytes).toBe(weightBytes - tableBytes + cacheBytes + arenaBytes + processBytes);
  const ratio = residentAfter(model, tokens) / residentBytes;
  expect(ratio).toBeGreaterThan(0.85);
  expect(ratio).toBeLessThan(1.15);
});
