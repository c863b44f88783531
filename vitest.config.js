import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { wholeSuites } from "./scripts/gate.mjs";
import LongestFirst from "./scripts/longest-first.mjs";
import { folderOf, rooms } from "./scripts/rooms.mjs";

/** Workers started from a source file must be JavaScript: the tests use the built ones. */
const builtWorkers = {
  name: "built-workers",
  transform: (code, id) =>
    /\/(src\/platform|packages\/worker)\/node\.ts$/.test(id)
      ? code
          .replace('"./kernel-worker-node.js"', '"../../dist/platform/kernel-worker-node.js"')
          .replace('"./model-worker-node.js"', '"../../dist/worker/model-worker-node.js"')
      : undefined,
};

// Where there is no GPU, Dawn finds SwiftShader, which Debian's chromium brings. The processes of the suites inherit this.
const swiftShader = "/usr/lib/chromium/vk_swiftshader_icd.json";
if (process.env.VK_ICD_FILENAMES === undefined && existsSync(swiftShader)) process.env.VK_ICD_FILENAMES = swiftShader;

const oneCore = fileURLToPath(new URL("test/support/one-core.cjs", import.meta.url));

// INSITU_WHOLE=none leaves all to the sample.
const whole = process.env.INSITU_WHOLE === "none" ? [] : wholeSuites();

export default defineConfig({
  plugins: [builtWorkers],
  // Tools and packages are reached as files of dist/; under test all are the sources that the suites import.
  resolve: {
    alias: Object.keys(rooms).map((room) => ({
      find: `#insitu/${room}`,
      replacement: fileURLToPath(new URL(folderOf(room), import.meta.url)),
    })),
  },
  test: {
    include: ["test/**/*.test.{js,ts}"],
    // Processes, one more than there are cores, since suites wait for programs that they start, and some at most: several read how much memory
    // theirs takes.
    pool: "forks",
    maxWorkers: Math.min(8, availableParallelism() + 1),
    isolate: false,
    env: {
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ""} --require ${JSON.stringify(oneCore)}`,
      // The compiler and the linter for types are programs in Go that end soon: collecting their garbage would take a third of their time.
      GOGC: "400",
      INSITU_WHOLE_SUITES: whole.join(","),
    },
    globalSetup: ["test/support/shared-folder.ts"],
    setupFiles: ["test/support/sample-setup.ts", "test/support/equality-setup.ts", "test/support/poison-setup.ts"],
    // Guards against hangs: a slow machine is no failure.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    teardownTimeout: 60_000,
    expect: { poll: { timeout: 120_000 } },
    sequence: { sequencer: LongestFirst },
    reporters: ["./scripts/closing-line.mjs"],
  },
});
