/** The tools that the package has: what users run that is no part of the library. */
import type { Tools } from "#insitu/cli/tools.js";
import { drawPlan } from "../pictures/draw.js";
import { conformance } from "./conformance.js";
import { pages } from "./pages.js";
import { rewrite } from "./rewrite.js";

/** What the command line loads. */
export const tools: Tools = { commands: [conformance, pages, rewrite], drawPlan };
