// Builds dist/: writes the generated list of operators, compiles the kernels if they changed, then compiles every room with tsc in import order.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { buildKernels } from "./build-kernels.mjs";
import { writeOperatorIndex } from "./operator-index.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
writeOperatorIndex();
await buildKernels();
const result = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-b"], { cwd: root, stdio: "inherit" });
process.exit(result.status ?? 1);
