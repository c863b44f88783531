// Builds dist/: writes the generated list of operators, then compiles every room with tsc in import order.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { writeOperatorIndex } from "./operator-index.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
writeOperatorIndex();
const result = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-b"], { cwd: root, stdio: "inherit" });
process.exit(result.status ?? 1);
