// What `npm test` runs of the suites that are sampled by the names of their tests, and what it may leave out where a machine lacks a part. A suite that
// is named on the command line runs whole, and so does one that guards what a change touches; of the others a sample runs, always the same.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Suites of very many like tests: one of `every` runs, of those whose names fit `tests`; all where a change touches what they guard. */
export const samples = [
  {
    suites: "test/webgpu/kernels/*",
    // Poison is a suite of few tests, each of which stands for a kernel.
    except: /poison/,
    every: 16,
    guards: [
      "src/ops/shared/webgpu/",
      "src/webgpu-kernels/",
      "src/backends/webgpu/",
      "the folders in src/ops of operators they name",
    ],
  },
  { suites: "test/rewrite/onnxruntime", tests: /^(?!llama_static)/, every: 3, guards: ["packages/rewrite/"] },
  { suites: "test/rewrite/styles", every: 3, guards: ["packages/rewrite/"] },
  { suites: "test/passes/decoders", tests: /_op\d+/, every: 3, guards: ["src/passes/"] },
  {
    suites: "test/wasm/decoders",
    tests: /rewrite:/,
    every: 3,
    guards: ["src/backends/wasm/", "src/ops/shared/wasm/", "kernels/"],
  },
];

/**
 * True for a suite, from the root, that a sample is taken of.
 * @type {(sample: { suites: string, except?: RegExp | undefined }, suite: string) => boolean}
 */
export const isOf = ({ suites, except }, suite) =>
  suite.startsWith(suites.replace(/\*$/, "")) && suite.endsWith(".test.ts") && except?.test(suite) !== true;

/** Files that differ from where this branch left main, from the root: committed, changed and new. Empty on main itself, and where there is no git. */
export function changedFiles() {
  const git = (...args) =>
    execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
      .split("\n")
      .filter(Boolean);
  try {
    const main = ["origin/main", "main"].find((name) => {
      try {
        return git("rev-parse", "--verify", "--quiet", name).length > 0;
      } catch {
        return false;
      }
    });
    const [base] = main === undefined ? ["HEAD"] : git("merge-base", "HEAD", main);
    return [...git("diff", "--name-only", base), ...git("ls-files", "--others", "--exclude-standard")];
  } catch {
    return [];
  }
}

/** The folders of src/ops whose operators a text names. */
function foldersNamedIn(text) {
  const folder = `${root}src/ops/`;
  return readdirSync(folder).filter((name) => {
    if (!existsSync(`${folder}${name}/op.ts`)) return false;
    const declared = readFileSync(`${folder}${name}/op.ts`, "utf8").matchAll(/^export const (\w+)/gm);
    return [...declared].some(([, operator]) => text.includes(`"${operator}"`));
  });
}

/** True where a change of these files touches what a sampled suite guards, or the suite itself. */
export function touches(sample, suite, changed) {
  const folders = sample.guards.filter((guard) => guard.endsWith("/"));
  if (changed.some((path) => path === suite || folders.some((folder) => path.startsWith(folder)))) return true;
  const operators = new Set(changed.flatMap((path) => /^src\/ops\/([^/]+)\//.exec(path)?.slice(1) ?? []));
  if (folders.length === sample.guards.length || operators.size === 0) return false;
  return foldersNamedIn(readFileSync(root + suite, "utf8")).some((name) => operators.has(name));
}

/** True where an argument of the command line names this suite and not a folder of them. */
export const isNamed = (suite, args) =>
  args.some(
    (arg) =>
      !arg.startsWith("-") &&
      suite.replace(/\.test\.ts$/, "").endsWith(arg.replace(/\.test\.ts$/, "")) &&
      !arg.endsWith("/"),
  );

/** Files up to which a change has the suites run whole that it touches. One that sweeps through the house touches all of them, and wants `npm run soak`. */
const mostChanged = 150;

/** The sampled suites that run whole: all below test/, by what was typed and by what changed, unless nearly everything did. */
export function wholeSuites(args = process.argv.slice(2), changed = changedFiles()) {
  const suites = readdirSync(`${root}test`, { recursive: true }).map((path) => `test/${path}`);
  const chosen = (asks) =>
    samples.flatMap((sample) => suites.filter((suite) => isOf(sample, suite) && asks(sample, suite)));
  const named = chosen((_, suite) => isNamed(suite, args));
  if (changed.length > mostChanged) return named;
  return [...new Set([...named, ...chosen((sample, suite) => touches(sample, suite, changed))])];
}

/**
 * What a machine may lack: the word by which a suite asks for it, what it is for, and how many tests may be left out for want of it. Who expects a part
 * (INSITU_PARTS=GPU,Redis) has a failure where it is missing.
 */
export const parts = {
  GPU: { word: /\bnoWebgpu\b|\bhasDevice\b/, budget: 800 },
  Chromium: { word: /\bchromium\b/, budget: 60 },
  Redis: { word: /\bredisServer\b/, budget: 60 },
  HAProxy: { word: /\bhaproxy\b/, budget: 10 },
};
