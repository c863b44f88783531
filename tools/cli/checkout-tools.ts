/** All tools for a program that is bundled: they run on the files of dist/, so that what they measure is what those files are. */
import { runCommandLine } from "#insitu/cli/command-line.js";
import type { Tools } from "#insitu/cli/tools.js";
import { tools as all } from "./all-tools.js";

/** What the command line of a checkout loads. */
export const tools: Tools = { ...all, runCommandLine: (argv) => runCommandLine(argv, async () => all) };
