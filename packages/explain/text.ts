/** A plan as a person reads it: inputs and outputs, each cache with its verdict, bytes, operators, and a line for each step. */
import { bytesText } from "#insitu/base/bytes-text.js";
import { mostCheckpoints } from "#insitu/base/checkpoint-bounds.js";
import { linesText } from "./lines-text.js";
import { factText } from "#insitu/graph/fact.js";
import { type Node, shortened, type Value } from "#insitu/graph/graph.js";
import { hasFixedSize } from "#insitu/plan/carried-pairs.js";
import { otherPresents } from "#insitu/plan/pairs.js";
import type { Plan, Verdict } from "#insitu/plan/plan.js";
import { effectOf } from "#insitu/plan/uses.js";
import { byteLengthOf } from "#insitu/tensor/element-type.js";
import type { CacheBytes } from "./bytes.js";
import type { CacheEntry } from "./caches.js";
import { nameOf } from "./chains.js";
import { groupAlike, patternOf, rangeText } from "./groups.js";
import { type Explanation, explanationOf, type SessionFacts } from "./gather.js";
import { kernelLines, runsOf, runsText } from "./kernels.js";

/** How much to print. */
interface TextOptions {
  /** One line for each step; all of them by default. */
  readonly steps?: boolean;
}

/** Caches listed one by one, at most; more are grouped by what they have in common, or counted. */
const mostSingle = 8;

/** The widest that a column is made for the sake of one entry. */
const widestColumn = 80;

/** Columns padded to the widest entry, the last one left as it is. */
function table(rows: readonly (readonly string[])[], indent = "  "): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.min(
      widestColumn,
      rows.reduce((widest, row) => Math.max(widest, row[column].length), 0),
    ),
  );
  return rows.map((row) =>
    `${indent}${row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column]))).join("  ")}`.trimEnd(),
  );
}

/** The plan as text: caches first, then one line a step. */
export function explainPlan(plan: Plan, facts: SessionFacts, { steps = true }: TextOptions = {}): string {
  const explanation = explanationOf(plan, facts);
  const { caches, operators } = explanation;
  const inPlace = caches.filter((cache) => cache.inPlace).length;
  const summary =
    caches.length === 0
      ? "no caches"
      : `${caches.length} cache update${caches.length === 1 ? "" : "s"}, ${inPlace === caches.length ? (inPlace === 1 ? "in place" : "all in place") : inPlace === 0 ? "none in place" : `${inPlace} in place`}`;
  const lines = [
    `plan of "${plan.graph.name}": ${plan.order.length} step${plan.order.length === 1 ? "" : "s"}, ${summary}, inPlace: "${plan.policy}"`,
    "",
    ...valueLines(plan),
    ...cacheLines(caches),
    ...choiceLines(plan),
    ...memoryLines(explanation, facts),
    ...kernelLines(plan, facts),
    "operators",
    ...wrapList(operators.map(([name, count]) => `${name} ${count}`)),
    ...(steps ? ["", "steps", ...stepLines(plan, facts)] : []),
  ];
  return linesText(lines);
}

function valueLines({ graph, pairs }: Plan): string[] {
  const list = (title: string, values: readonly Value[], held: ReadonlySet<Value>): string[] => {
    const rest = values.filter((value) => !held.has(value) && value.initializer === undefined);
    const count = values.filter((value) => held.has(value)).length;
    const lines = table(rest.slice(0, 40).map((value) => [value.name, value.fact ? factText(value.fact) : ""]));
    if (rest.length > 40) lines.push(`  and ${rest.length - 40} more`);
    if (count > 0) lines.push(`  and ${count} cache${count === 1 ? "" : "s"} that a state holds`);
    return [title, ...lines, ""];
  };
  return [
    ...list("inputs", graph.inputs, new Set(pairs.map(({ past }) => past))),
    ...list("outputs", graph.outputs, new Set(pairs.map(({ present }) => present))),
  ];
}

/** `in place: …` or `copied: …`, the words a verdict begins with. */
const verdictText = ({ inPlace, reason }: CacheEntry): string => `${inPlace ? "in place" : "copied"}: ${reason}`;

function cacheLines(caches: readonly CacheEntry[]): string[] {
  if (caches.length === 0) return [];
  const keyOf = (cache: CacheEntry): string =>
    [cache.root.name, cache.node.op.name, verdictText(cache)].map(patternOf).join("\n");
  const groups = caches.length > mostSingle ? groupAlike(caches, keyOf) : caches.map((cache) => [cache]);
  const rows = groups.map((group) => {
    const names = (pick: (cache: CacheEntry) => string): string => rangeText(group.map(pick));
    return [
      group.length === 1 ? names((cache) => cache.root.name) : `${names((cache) => cache.root.name)} (${group.length})`,
      names((cache) => nameOf(cache.node)),
      group[0].node.op.name,
      names(verdictText),
    ];
  });
  return ["caches", ...table(rows), ""];
}

/** Caches whose present could be another output: which one it is, and how to say otherwise. */
function choiceLines(plan: Plan): string[] {
  const rows = plan.pairs.flatMap((pair) => {
    const others = otherPresents(plan, pair).map(({ name }) => name);
    if (others.length === 0) return [];
    const say = `pairs: { ${JSON.stringify(pair.past.name)}: ${JSON.stringify(others[0])} }`;
    return [[pair.past.name, `becomes ${pair.present.name}; could become ${others.join(", ")}: ${say} says so`]];
  });
  if (rows.length === 0) return [];
  const more = rows.length > mostSingle ? [`  and ${rows.length - mostSingle} more`] : [];
  return ["presents to choose from", ...table(rows.slice(0, mostSingle)), ...more, ""];
}

function memoryLines({ plan, bytes }: Explanation, { weightBytes, arenaBytes }: SessionFacts): string[] {
  const arena = arenaBytes === undefined ? "known once all sizes are" : bytesText(arenaBytes);
  return [
    "memory",
    ...table([
      ["weights", bytesText(weightBytes)],
      ...(bytes === undefined || plan.pairs.length === 0 ? [] : [["state", bytes.state.text]]),
      ["arena", arena],
      ...checkpointRows(plan),
    ]),
    "",
    ...(bytes === undefined ? [] : tokenLines(bytes)),
  ];
}

/** What it takes to go back, where caches have no rows: a copy of those, and how many of them texts keep. */
function checkpointRows({ pairs }: Plan): string[][] {
  const states = pairs.filter(
    ({ past, axis }) => axis === undefined && hasFixedSize(past) && String(past.fact!.shape![0]) !== "num_blocks",
  );
  const bytes = states.reduce((sum, { past: { fact } }) => {
    const count = fact!.shape!.slice(1).reduce<number>((all, dim) => all * Number(dim), 1);
    return sum + byteLengthOf(fact!.type, count);
  }, 0);
  if (bytes === 0) return [];
  const names =
    states.length === 1 ? `"${states[0].past.name}"` : `"${states[0].past.name}" and ${states.length - 1} more`;
  const most = `a text keeps ${mostCheckpoints(bytes)} at most, at the ends of blocks`;
  return [
    [
      "checkpoint",
      `${bytesText(bytes)} × batch: ${names} ${states.length === 1 ? "has" : "have"} no rows to go back to; ${most}`,
    ],
  ];
}

function tokenLines({ copying, moved, written }: CacheBytes): string[] {
  const rows = [
    ["a runtime that copies its caches moves", copying.text],
    ["this plan moves", moved.text],
  ];
  if (written !== undefined) rows.push(["and writes", written.text]);
  return ["for each token", ...table(rows), ""];
}

/** What a step does to memory, in a few words. */
function deed(node: Node, verdicts: ReadonlyMap<Value, Verdict>): string {
  const parts: string[] = [];
  node.outputs.forEach((value, position) => {
    if (value === undefined) return;
    const verdict = verdicts.get(value);
    const effect = effectOf(node, position);
    if (verdict?.inPlace) parts.push(`writes ${shortened(verdict.root.name)} in place (${verdict.reason})`);
    else if (verdict !== undefined) parts.push(`copies ${shortened(verdict.past.name)}: ${verdict.reason}`);
    else if (effect?.kind === "view") parts.push(`shows ${shortened(effect.sources[0].name)}`);
  });
  return parts.join("; ");
}

function stepLines(plan: Plan, facts: SessionFacts): string[] {
  const verdicts = new Map(plan.verdicts.map((verdict) => [verdict.present, verdict]));
  return table(
    plan.order.map((node) => {
      const outputs = node.outputs.map((value) =>
        value?.fact === undefined ? (value?.name ?? "–") : factText(value.fact),
      );
      const told = [runsText(runsOf(node, facts)), deed(node, verdicts)].filter((part) => part !== "");
      return [shortened(nameOf(node)), node.op.name, outputs.join(", "), told.join("; ")];
    }),
  );
}

/** Items in lines of about a hundred characters. */
function wrapList(items: readonly string[]): string[] {
  const lines: string[] = [];
  for (const item of items) {
    const line = lines.at(-1);
    if (line === undefined || line.length + item.length > 98) lines.push(`  ${item}`);
    else lines[lines.length - 1] = `${line}, ${item}`;
  }
  return lines.map((line, at) => (at < lines.length - 1 ? `${line},` : line));
}
