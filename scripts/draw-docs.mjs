// Draws the pictures of docs/in-place.md from the graphs in test/docs/examples.ts; the tests check that they are up to date.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const { module } = await runnerImport("/test/docs/picture.ts", { root, configFile: false, logLevel: "error" });
mkdirSync(`${root}docs/img`, { recursive: true });
for (const [name, svg] of module.pictures()) writeFileSync(`${root}docs/img/${name}`, svg);
