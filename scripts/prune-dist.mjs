// Removes from dist/ what earlier builds wrote for sources that are gone: a test could still import it.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { folderOf } from "./rooms.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Folders of dist/ that are not src/'s. */
const others = ["browser", "lib", "types", ".tsbuildinfo"];

/** Prunes a folder of dist/, given from there with a slash at its end. */
export function pruneDist(folder = "") {
  if (!existsSync(`${root}dist/${folder}`)) return;
  for (const entry of readdirSync(`${root}dist/${folder}`, { withFileTypes: true })) {
    const path = folder + entry.name;
    if (folder === "" && others.includes(entry.name)) continue;
    const source = entry.isDirectory() ? path : path.replace(/(\.d\.ts|\.js)$/, ".ts");
    const [room] = path.split("/");
    const home = room === "tools" || source === "tools" ? "" : `${folderOf(room).split("/")[0]}/`;
    if (!existsSync(root + home + source)) rmSync(`${root}dist/${path}`, { recursive: true });
    else if (entry.isDirectory()) pruneDist(`${path}/`);
  }
}
