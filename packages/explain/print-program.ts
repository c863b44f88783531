/** A program as text to read: one line a step, with where the bytes of each output lie. Nothing reads it back. */
import { bytesText } from "#insitu/base/bytes-text.js";
import { linesText } from "./lines-text.js";
import { factText } from "#insitu/graph/fact.js";
import { shortened, type Value } from "#insitu/graph/graph.js";
import { callText } from "./print-graph.js";
import type { Placement } from "#insitu/plan/layout.js";
import type { Program, Step } from "#insitu/plan/program.js";

/** The program as text. */
export function printProgram({ plan, steps, facts, constants, checks, arenaBytes }: Program): string {
  const typed = (value: Value): string => {
    const fact = facts.get(value);
    return fact === undefined ? shortened(value.name) : `${shortened(value.name)}: ${factText(fact)}`;
  };
  const known = constants.size === 0 ? "" : `, ${constants.size} values known beforehand`;
  return linesText([
    `program ${plan.graph.name || "main"}(${plan.graph.inputs.map(typed).join(", ")}): arena of ${bytesText(arenaBytes)}${known}`,
    ...checks.map(({ node }) => `  check ${node.label}`),
    ...steps.flatMap((step) => [
      ...step.checks.map(({ node }) => `  check ${node.label}`),
      `  ${outputsText(step)} = ${callText(step.node)}${step.keeps ? "  # what it overwrites is kept" : ""}`,
    ]),
    `  return ${plan.graph.outputs.map(({ name }) => shortened(name)).join(", ")}`,
  ]);
}

const outputsText = ({ node, placements }: Step): string =>
  node.outputs
    .map((value, at) => (value === undefined ? "–" : `${shortened(value.name)}${placeText(placements[at])}`))
    .join(", ");

function placeText(placement: Placement | undefined): string {
  if (placement === undefined) return "";
  switch (placement.kind) {
    case "arena":
      return `: ${formText(placement)} at ${placement.offset}`;
    case "own":
      return `: ${formText(placement)} in a buffer of its own`;
    case "shared":
      return `: ${formText(placement)} ${deeds[placement.effect]} ${shortened(placement.with.name)}`;
    case "dynamic":
      return ": found out when it runs";
    default:
      return placement satisfies never;
  }
}

const deeds = { view: "shows", reuse: "takes over", update: "writes into" } as const;

const formText = ({ type, shape }: { readonly type: string; readonly shape: readonly number[] }): string =>
  `${type}[${shape.join(",")}]`;
