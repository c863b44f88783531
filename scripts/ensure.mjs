// Makes a clone ready: installs the locked dependencies when they are missing or older than the lock file, then builds.
// Runs before `npm start`, `npm test` and `npm run soak`; must work when nothing is installed, so it imports Node only.
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const modified = (path) => statSync(root + path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
const run = (...args) => {
  const result = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (result.error) throw result.error;
  if (result.status !== 0) process.exit(result.status ?? 1);
};

// npm writes node_modules/.package-lock.json last: its time marks a finished install.
if (modified("node_modules/.package-lock.json") < modified("package-lock.json")) {
  if (!process.env.npm_execpath) throw new Error("start this through npm: npm start, npm test");
  console.log("installing the locked dependencies …");
  run(process.env.npm_execpath, "ci", "--include=dev", "--no-audit", "--no-fund");
}
run("scripts/build.mjs");
