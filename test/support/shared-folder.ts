// A folder for what the suites of one test run share, such as the packed package: made before the first of them, taken away after the last.
// The built package is in it in few files (test/support/built.ts says for whom).
import { build, type Plugin } from "esbuild";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Each file keeps the address that it has in dist, and with it the workers, models and packages that it finds from there. */
const ownAddresses: Plugin = {
  name: "own addresses",
  setup: (bundle) =>
    bundle.onLoad({ filter: /\/dist\/.*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href)),
    })),
};

/** Called by vitest in the process that starts the suites, which inherit its environment. */
export default async function setup(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), "insitu-test-"));
  process.env["INSITU_TEST_FOLDER"] = folder;
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  await build({
    entryPoints: ["cli/main.js", "index.node.js"].map((path) => join(root, "dist", path)),
    bundle: true,
    splitting: true,
    // The package says that its files do nothing when they are loaded; the command does.
    ignoreAnnotations: true,
    packages: "external",
    platform: "node",
    format: "esm",
    outbase: join(root, "dist"),
    outdir: join(folder, "built"),
    plugins: [ownAddresses],
    logLevel: "error",
  });
  return () => rmSync(folder, { recursive: true, force: true });
}
