// A vitest sequencer: suites that take long begin first, so that none of them begins when the others are about to end and keeps one core
// busy alone. vitest knows how long they took where they ran before; a fresh clone has this list. Those that install the package do not begin
// at once with each other: all but the first would wait for it.
import { relative } from "node:path";
import { BaseSequencer } from "vitest/node";

const long = [
  "docs/programs",
  "house/house",
  "browser/models",
  "webgpu/weights",
  "webgpu/text",
  "conformance/onnx-node",
  "bench/serve-device",
  "package/package",
  "webgpu/kernels/few-rows",
  "browser/memory",
  "browser/browser",
  "generate/drafts",
  "webgpu/few-texts",
  "webgpu/flight",
  "serve/lost-device",
  "generate/heads",
  "serve/engine-webgpu",
  "wasm/held-once",
  "generate/saved-context",
  "hostile/bombs",
  "bench/loads",
  "clients/transformers",
  "serve/soak",
  "serve/warm",
  "wasm/pool",
  "wasm/lost-threads",
  "hub/hub",
  "generate/command",
  "examples/examples",
  "wasm/unavailable",
  "webgpu/browser",
  "webgpu/states",
  "webgpu/kernels/cached-attention",
  "conformance/extremes",
  "passes/near-misses",
  "browser/recipes",
  "site/site",
  "site/guide",
  "models/decoders",
  "ops/backends",
];

/** Where a suite stands in the list; behind it where it is not there. */
const placeOf = (root, { moduleId }) => {
  const at = long.findIndex((name) => relative(root, moduleId) === `test/${name}.test.ts`);
  return at < 0 ? long.length : at;
};

export default class LongestFirst extends BaseSequencer {
  async sort(files) {
    const { root } = this.ctx.config;
    return (await super.sort(files)).sort((a, b) => placeOf(root, a) - placeOf(root, b));
  }
}
