/** All tools, as a checkout has them: those of the package, and what measures insitu beside other runtimes. */
import type { Tools } from "#insitu/cli/tools.js";
import { bench } from "./bench.js";
import { tools as shipped } from "./shipped-tools.js";

/** What a command line has that was made with all of them. */
export const tools: Tools = { ...shipped, commands: [...shipped.commands, bench] };
