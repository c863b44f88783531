// The built package for processes that a suite starts, as Node finds it: the bundles in dist/lib.
import { fileURLToPath } from "node:url";

/** What `insitu` on the command line is. */
export const builtCommand: string = fileURLToPath(new URL("../../dist/lib/cli.js", import.meta.url));

/** The address of what `import "insitu"` is under Node. */
export const builtEntry: string = new URL("../../dist/lib/index.node.js", import.meta.url).href;
