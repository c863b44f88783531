// Makes `#insitu/<room>/<file>.js` in the scripts of dist/ the relative path that it stands for: what is built runs anywhere, a page without a bundler
// among them. Declarations keep the name, which package.json resolves.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));

/** Relinks what tsc wrote; what is linked stays as it is. */
export function relink() {
  for (const path of readdirSync(dist, { recursive: true })) {
    if (!path.endsWith(".js") || /^(browser|node)\//.test(path)) continue;
    const text = readFileSync(dist + path, "utf8");
    if (!text.includes('"#insitu/')) continue;
    const linked = text.replace(/"#insitu\/([^"]+)"/g, (_, target) => {
      const relative = posix.relative(posix.dirname(path), target);
      return JSON.stringify(relative.startsWith(".") ? relative : `./${relative}`);
    });
    writeFileSync(dist + path, linked);
  }
}
