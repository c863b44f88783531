/**
 * What the command line has from tools/, loaded where it is asked for: commands that are no part of the library, and the drawing of plans. The
 * package has one file of them; what measures insitu beside other runtimes is in a checkout alone.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { InsituError } from "#insitu/base/error.js";
import type { SessionFacts } from "#insitu/explain/gather.js";
import type { Plan } from "#insitu/plan/plan.js";
import type { Command } from "./command.js";

/** What tools/ brings. */
export interface Tools {
  readonly commands: readonly Command[];
  /** The caches of a plan, their writers and readers, as SVG. */
  readonly drawPlan: (plan: Plan, facts: SessionFacts, options: { readonly title?: string }) => string;
  /** Where the tools have a library of their own, the whole command line over it. */
  readonly runCommandLine?: (argv: readonly string[]) => Promise<number>;
}

/** Loads the tools that have a command, or what else the text says is asked for. */
export type LoadTools = (asked: string) => Promise<Tools>;

/** The commands of tools/, and what each does. */
export const toolSummaries = {
  bench: "measures insitu and the installed peers, interleaved in one run",
  conformance: "runs every case in a folder of ONNX's backend-test layout",
  pages: "runs several prompts on a paged cache and draws its pool: blocks, owners, shared prefixes, free space",
  rewrite:
    "rewrites a decoder so that its caches are written in place: TensorScatter and Attention over a fixed capacity",
} as const;

/** From where this file lies in a bundle, and from where it is compiled to. */
const shipped = ["./shipped-tools.js", "../tools/cli/shipped-tools.js"];
const measuring = ["../tools/cli/checkout-tools.js"];

/** The tools beside this program. Throws `invalid-argument` for those of a checkout where there is none. */
export const loadTools: LoadTools = async (asked) => {
  const places = asked === "bench" ? measuring : shipped;
  const found = places.map((place) => new URL(place, import.meta.url)).find((url) => existsSync(fileURLToPath(url)));
  if (found !== undefined) return ((await import(found.href)) as { readonly tools: Tools }).tools;
  throw new InsituError(
    "invalid-argument",
    `insitu ${asked} is no part of the package: it compares insitu with other runtimes, from a checkout of its repository. There, npm ci && npm run build, then npx insitu ${asked}`,
  );
};
