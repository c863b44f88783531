// Builds dist/: writes the generated lists of operators and of ONNX's messages; writes the lists of kernels and compiles these if they changed; compiles every room with
// tsc in import order, without what is left of sources that are gone; then bundles what pages load without a bundler.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { buildBrowser } from "./build-browser.mjs";
import { buildKernels } from "./build-kernels.mjs";
import { writeMessageTables } from "./message-tables.mjs";
import { writeOperatorIndex } from "./operator-index.mjs";
import { pruneDist } from "./prune-dist.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
writeOperatorIndex();
writeMessageTables();
await buildKernels();
const result = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-b"], { cwd: root, stdio: "inherit" });
if (result.status !== 0) process.exit(result.status ?? 1);
pruneDist();
await buildBrowser();
