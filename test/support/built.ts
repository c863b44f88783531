// The built package for processes that a suite starts: dist's own code in few files, since to load its six hundred is a good part of what a short
// process does. In the soak it is dist itself, as it always is where memory is counted, or where files, flags or the package are what is tried.
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const dist = fileURLToPath(new URL("../../dist", import.meta.url));
const { INSITU_SOAK: soak, INSITU_TEST_FOLDER: shared } = process.env;

const builtFile = (path: string): string =>
  soak === undefined && shared !== undefined ? join(shared, "built", path) : join(dist, path);

/** What `insitu` on the command line is. */
export const builtCommand: string = builtFile("cli/main.js");

/** The address of what `import "insitu"` is under Node. */
export const builtEntry: string = pathToFileURL(builtFile("index.node.js")).href;
