// Copies into dist/types the declarations that the package's exports reach, with their imports as relative paths: no others are published.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { reached } from "./reached.mjs";
import { linked } from "./relink.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The declarations that a package's manifest names, below dist/types. */
export function typesOf(manifest) {
  const { exports } = JSON.parse(readFileSync(join(root, manifest), "utf8"));
  return [...new Set([...JSON.stringify(exports).matchAll(/"\.\/dist\/types\/([^"]+)"/g)].map(([, path]) => path))];
}

/** Writes dist/types; files of builds before are removed. */
export function buildTypes() {
  const paths = new Set(reached(typesOf("package.json")));
  const folder = join(root, "dist/types");
  for (const path of paths) {
    const text = linked(path, readFileSync(join(root, "dist", path), "utf8"));
    const target = join(folder, path);
    mkdirSync(dirname(target), { recursive: true });
    if (!existsSync(target) || readFileSync(target, "utf8") !== text) writeFileSync(target, text);
  }
  for (const path of readdirSync(folder, { recursive: true }))
    if (path.endsWith(".ts") && !paths.has(path.replaceAll("\\", "/"))) rmSync(join(folder, path));
}
