// The files of dist/ that some of them name, directly or through others: imports of every kind, and URLs of workers.
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const specifiers = /(?:from|import|new URL\()\s*\(?\s*["'](\.[^"']+|#insitu\/[^"']+)["']/g;

/** Paths below dist/, of these and of all that they name. A declaration names modules: of those it needs the declarations. */
export function reached(entries) {
  const found = new Set();
  const visit = (path) => {
    if (found.has(path)) return;
    found.add(path);
    for (const [, specifier] of readFileSync(join(dist, path), "utf8").matchAll(specifiers)) {
      const named = specifier.startsWith("#")
        ? specifier.replace("#insitu/", "")
        : posix.join(posix.dirname(path), specifier);
      visit(path.endsWith(".d.ts") ? named.replace(/\.js$/, ".d.ts") : named);
    }
  };
  for (const entry of entries) visit(entry);
  return [...found];
}
