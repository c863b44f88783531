// The long form of the suites: the same tests, with INSITU_SOAK set so that sampled suites run their full counts. Those that compute on the
// WASM backend run once more with buffers at the ends of its memories, where a byte read too far traps.
import { defineConfig, mergeConfig } from "vitest/config";
import base from "./vitest.config.js";

const { plugins, resolve, test } = base;
const soak = { ...test, testTimeout: 3_600_000, hookTimeout: 3_600_000 };
/** Threads as the machine has cores, unlike in the tests. */
const env = { INSITU_SOAK: "1", NODE_OPTIONS: process.env.NODE_OPTIONS ?? "" };

/** Suites whose memories are not what they count. */
const computing = [
  "conformance/corpora",
  "conformance/onnx-node",
  "generate/embedded",
  "generate/whole-text",
  "models/*",
  "ops/*",
  "paged/*",
  "passes/decoders",
  "wasm/decoders",
  "wasm/exact",
  "wasm/light*",
  "wasm/microsoft-attention",
  "wasm/products",
  "wasm/repeat",
].map((suite) => `test/${suite}.test.ts`);

export default mergeConfig(
  base,
  defineConfig({
    test: {
      projects: [
        { plugins, resolve, test: { ...soak, name: "all", env } },
        {
          plugins,
          resolve,
          test: {
            ...soak,
            name: "at the memory's end",
            include: computing,
            env: { ...env, INSITU_MEMORY_END: "1" },
            setupFiles: ["test/support/memory-end-setup.ts", "test/support/equality-setup.ts"],
          },
        },
      ],
    },
  }),
);
