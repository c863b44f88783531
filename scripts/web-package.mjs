// Fills packages/web from dist/: what browsers load and the types of it, and nothing else. `node scripts/web-package.mjs [folder]` writes the
// package into another folder instead; `npm pack ./packages/web` runs it by itself.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Files below dist/ that begin the walk: each entry with its types. */
const entries = ["index", "onnxruntime", "worker", "worker/model-worker-web", "platform/kernel-worker-web"];

/** Files that a module or a declaration names: imports of every kind, and URLs of workers. */
const specifiers = /(?:from|import|new URL\()\s*\(?\s*["'](\.[^"']+|#insitu\/[^"']+)["']/g;

/** Every file below dist/ that a page may come to load, by path. */
export function webFiles() {
  const found = new Set();
  const visit = (path) => {
    if (found.has(path)) return;
    found.add(path);
    const text = readFileSync(join(root, "dist", path), "utf8");
    for (const [, specifier] of text.matchAll(specifiers)) {
      const named = specifier.startsWith("#")
        ? specifier.replace("#insitu/", "")
        : posix.join(posix.dirname(path), specifier);
      // A declaration names modules: of those it needs the declarations.
      visit(path.endsWith(".d.ts") ? named.replace(/\.js$/, ".d.ts") : named);
    }
  };
  for (const entry of entries) for (const ending of [".js", ".d.ts"]) visit(entry + ending);
  for (const name of readdirSync(join(root, "dist/browser"))) found.add(`browser/${name}`);
  return [...found];
}

/** Writes the package into a folder. */
export function writeWebPackage(folder = join(root, "packages/web")) {
  if (!existsSync(join(root, "dist/browser/insitu.js"))) throw new Error("dist/ is not there: npm run build");
  rmSync(join(folder, "dist"), { recursive: true, force: true });
  for (const path of webFiles()) {
    const place = join(folder, "dist", path);
    mkdirSync(dirname(place), { recursive: true });
    copyFileSync(join(root, "dist", path), place);
  }
  for (const name of ["LICENSE", "NOTICE"]) copyFileSync(join(root, name), join(folder, name));
  for (const name of ["package.json", "README.md"]) {
    const source = join(root, "packages/web", name);
    if (source !== join(folder, name)) copyFileSync(source, join(folder, name));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeWebPackage(process.argv[2]);
