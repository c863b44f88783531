// Fills packages/web from dist/: what browsers load and the types of it, and nothing else. `node scripts/web-package.mjs [folder]` writes the
// package into another folder instead; `npm pack ./packages/web` runs it by itself.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { reached } from "./reached.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Every file below dist/ that a page may come to load, and the types of it, by path. */
export function webFiles() {
  const { exports } = JSON.parse(readFileSync(join(root, "packages/web/package.json"), "utf8"));
  const named = [...JSON.stringify(exports).matchAll(/"\.\/dist\/((?:lib|types)\/[^"]+)"/g)].map(([, path]) => path);
  const found = reached(named);
  const maps = found.map((path) => `${path}.map`).filter((path) => existsSync(join(root, "dist", path)));
  return [...found, ...maps, ...readdirSync(join(root, "dist/browser")).map((name) => `browser/${name}`)];
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
