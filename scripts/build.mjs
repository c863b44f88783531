// Builds dist/: writes the generated lists of operators, of models and of ONNX's messages, and those of kernels; compiles these and the page that the server ships, if they
// changed; compiles every room with tsc in import order, without what is left of sources that are gone; then gathers the declarations that are published, and bundles what pages load without a bundler, and what Node and bundlers load.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { buildBrowser } from "./build-browser.mjs";
import { buildLibrary } from "./build-library.mjs";
import { buildKernels } from "./build-kernels.mjs";
import { buildPage } from "./build-site.mjs";
import { buildTypes } from "./build-types.mjs";
import { writeCatalogueIndex } from "./catalogue-index.mjs";
import { writeMessageTables } from "./message-tables.mjs";
import { writeOperatorIndex } from "./operator-index.mjs";
import { pruneDist } from "./prune-dist.mjs";
import { relink } from "./relink.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
writeOperatorIndex();
writeMessageTables();
writeCatalogueIndex();
await buildKernels();
buildPage();
const result = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-b"], { cwd: root, stdio: "inherit" });
if (result.status !== 0) process.exit(result.status ?? 1);
pruneDist();
relink();
buildTypes();
await Promise.all([buildBrowser(), buildLibrary()]);
