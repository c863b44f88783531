/** What a session tells of its plan: as text, or as JSON for tools. */
import type { Transfer } from "../backends/backend.js";
import { type ExplainJson, explainJson } from "#insitu/explain/json.js";
import { explainPlan } from "#insitu/explain/text.js";
import { KeptPresents } from "./kept-presents.js";
import { type PresentsExplanation, presentsJson, presentsText } from "./presents-explanation.js";
import type { Parts } from "./session.js";

/** What `explain({ json: true })` returns: the plan as JSON, why the model was not rewritten, and how presents are kept. */
export type SessionExplanation = ExplainJson & {
  readonly notRewritten?: string;
  readonly presents?: PresentsExplanation;
};

/** What both forms tell of runs with a state. */
function factsOf({ pairings, functional, weightBytes, removed }: Parts): Parameters<typeof explainJson>[1] {
  const { stateful } = pairings.own;
  const accounts = stateful.describeSteps() ?? functional.describeSteps();
  const told = accounts === undefined ? {} : { accounts };
  return { weightBytes, arenaBytes: stateful.memory.arenaBytes, removed, ...told };
}

const presentsOf = ({ presents }: Parts): KeptPresents["told"] | string | undefined =>
  presents instanceof KeptPresents ? presents.told : presents;

/** The plan as JSON. */
export function explanationOf(parts: Parts): SessionExplanation {
  const { notRewritten, pairings } = parts;
  const presents = presentsOf(parts);
  return {
    ...explainJson(pairings.own.stateful.plan, factsOf(parts)),
    ...(notRewritten === undefined ? {} : { notRewritten }),
    ...(presents === undefined ? {} : { presents: presentsJson(presents) }),
  };
}

/** The plan as text. */
export function explanationText(parts: Parts): string {
  const { pairings, functional, edits, opened, passedOver, notRewritten, arriving } = parts;
  const { stateful } = pairings.own;
  const presents = presentsOf(parts);
  const transfers = [stateful, functional].map((executable) => executable.describeTransfers());
  return [
    explainPlan(stateful.plan, factsOf(parts)),
    ...section("backends that were passed over", passedOver),
    ...section("memories", opened.describe()),
    ...section("weights that stay in their files", arriving.describe()),
    ...section(
      "brought to the backend and back by each run",
      (transfers.find(({ length }) => length > 0) ?? []).map(transferText),
    ),
    ...section("edits of caches", edits.describe()),
    ...(presents === undefined ? [] : section("presents of runs without a state", presentsText(presents))),
    ...(notRewritten === undefined ? [] : [`\nnot rewritten: ${notRewritten}`]),
  ].join("\n");
}

/** Lines under a heading; nothing where there are none. */
const section = (heading: string, lines: readonly string[]): readonly string[] =>
  lines.length === 0 ? [] : [`\n${heading}`, ...lines.map((line) => `  ${line}`)];

const transferText = ({ value, to, bytes }: Transfer): string =>
  to === "host" ? `${value.name}: ${bytes} bytes to the host` : `${value.name}: ${bytes} bytes from the host`;
