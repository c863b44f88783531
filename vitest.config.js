import { defineConfig } from "vitest/config";

/** A worker started from a source file must be JavaScript: the tests use the built one. */
const builtWorkers = {
  name: "built-workers",
  transform: (code, id) =>
    id.endsWith("/src/platform/node.ts")
      ? code.replace('"./kernel-worker-node.js"', '"../../dist/platform/kernel-worker-node.js"')
      : undefined,
};

export default defineConfig({
  plugins: [builtWorkers],
  test: {
    include: ["test/**/*.test.{js,ts}"],
    pool: "threads",
    isolate: false,
    testTimeout: 120_000,
    reporters: ["./scripts/closing-line.mjs"],
  },
});
