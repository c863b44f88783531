// Bundles suites, or programs such as tools/cli/main.ts, into one file each that a machine with nothing but Node can run:
//   node scripts/bare/bundle.mjs <folder> <suite or program>...
// The files they read must be there too, at the same place below the root from which the bundle is run; suites that start threads or processes need dist/.
import { build } from "esbuild";
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { sourceOf } from "../rooms.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const [folder, ...entries] = process.argv.slice(2);
const isSuite = (path) => path.endsWith(".test.ts");

/** Where a file lies, told at run time: the bundle lies elsewhere. */
const hereOf = (path) => `new URL(${JSON.stringify(relative(root, path))}, \`file://\${process.cwd()}/\`).href`;

const bare = {
  name: "bare",
  setup(bundle) {
    bundle.onResolve({ filter: /^#insitu\// }, ({ path }) => ({ path: root + sourceOf(path) }));
    bundle.onResolve({ filter: /^vitest$/ }, () => ({ path: `${root}scripts/bare/vitest.mjs` }));
    bundle.onLoad({ filter: /\/(src|packages|tools|test|scripts)\/.*\.(ts|mjs)$/ }, ({ path }) => {
      let text = readFileSync(path, "utf8").replace(/^#!.*\n/, "");
      const globs = [];
      text = text.replace(
        /import\.meta\.glob(?:<[^;]*?>)?\(\s*"([^"]+)",\s*\{ eager: true \},?\s*\)/g,
        (_, pattern) => {
          // The last part of the pattern may be any file of that ending.
          const base = resolve(dirname(path), dirname(pattern));
          const ending = basename(pattern).slice(1);
          const files = readdirSync(base)
            .toSorted()
            .filter((name) => name.endsWith(ending))
            .map((name) => `${base}/${name}`);
          const names = files.map((file) => {
            globs.push(`import * as glob${globs.length} from ${JSON.stringify(file)};`);
            return `${JSON.stringify(file)}: glob${globs.length - 1}`;
          });
          return `({ ${names.join(", ")} })`;
        },
      );
      // Workers are started from built files, as vitest.config.js has it.
      if (/\/(src\/platform|packages\/worker)\/node\.ts$/.test(path))
        text = text
          .replace('"./kernel-worker-node.js"', '"../../dist/platform/kernel-worker-node.js"')
          .replace('"./model-worker-node.js"', '"../../dist/worker/model-worker-node.js"');
      // Generated files hold scripts of pages as text: what those say of themselves is theirs.
      if (!path.endsWith(".gen.ts")) text = text.replaceAll("import.meta.url", hereOf(path));
      return { contents: globs.join("\n") + "\n" + text, loader: path.endsWith("ts") ? "ts" : "js" };
    });
  },
};

/** What vitest does before each suite. */
const setups = ["equality-setup", "poison-setup"].map(
  (name) => `import ${JSON.stringify(`${root}test/support/${name}.ts`)};`,
);

const runningSuite = (suite) => `
    import { runAll } from "vitest";
    const { passed, failed } = await runAll(${JSON.stringify(resolve(suite))});
    console.log(${JSON.stringify(suite)} + ": " + passed + " passed, " + failed + " failed");
    process.exit(failed > 0 ? 1 : 0);`;

for (const entry of entries) {
  const own = `import ${JSON.stringify(resolve(entry))};`;
  const contents = isSuite(entry) ? [...setups, own, runningSuite(entry)].join("\n") : own;
  await build({
    stdin: { contents, resolveDir: root, loader: "js" },
    bundle: true,
    // The package says that its files do nothing when they are loaded; suites do.
    ignoreAnnotations: true,
    platform: "node",
    format: "esm",
    target: "node22",
    outfile: `${folder}/${basename(entry, isSuite(entry) ? ".test.ts" : ".ts")}.mjs`,
    plugins: [bare],
    external: ["webgpu"],
    banner: {
      js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);',
    },
    logLevel: "error",
  });
}
