// Makes what tsc wrote to dist/ fit to be published: `#insitu/<room>/<file>.js` in scripts becomes the relative path that it stands for, so that what is built
// runs anywhere, a page without a bundler among them; and comments of declarations go from scripts, since editors read them in .d.ts files, which keep both.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { uncommented } from "./uncommented.mjs";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));

/** A script with its imports as relative paths. */
export const linked = (path, text) =>
  text.replace(/"#insitu\/([^"]+)"/g, (_, target) => {
    const relative = posix.relative(posix.dirname(path), target);
    return JSON.stringify(relative.startsWith(".") ? relative : `./${relative}`);
  });

/** Relinks what tsc wrote; what is linked stays as it is. */
export function relink() {
  for (const path of readdirSync(dist, { recursive: true })) {
    if (!path.endsWith(".js") || /^(browser|lib)\//.test(path)) continue;
    const text = readFileSync(dist + path, "utf8");
    const changed = uncommented(path, linked(path, text));
    if (changed !== text) writeFileSync(dist + path, changed);
  }
}
