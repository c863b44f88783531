import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.{js,ts}"],
    pool: "threads",
    isolate: false,
    testTimeout: 120_000,
    reporters: ["dot", "./scripts/closing-line.mjs"],
  },
});
