/** A report on a server on a device as tables. */
import { type Column, tableLines } from "../serve/table-lines.js";
import type { LoadFigures } from "./measure-load.js";
import { agrees, type DeviceServeReport } from "./run.js";
import type { DeviceServeRow } from "./rows.js";

const number = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

const titles: Readonly<Record<keyof LoadFigures, string>> = {
  firstToken: "first token",
  token: "ms a token",
  tokensPerSecond: "tokens/s whole",
  longestGap: "longest gap",
};

const heads = {
  one: "One client: milliseconds to the first token, and for each one after it",
  many: "Many clients: tokens a second of all texts, prompts counted; first tokens and milliseconds a token are medians over texts",
  beside:
    "A stream while somebody else's long prompt is read: that one's first token, and how long the stream stood still at most",
} as const;

/** The columns of one kind of load: what is asked of it, each beside its ratio. */
function columnsOf(rows: readonly DeviceServeRow[]): Column<DeviceServeRow>[] {
  const asked = (Object.keys(titles) as (keyof LoadFigures)[]).filter((name) =>
    rows.some(({ figures }) => figures[name] !== null),
  );
  const cell = (value: number | null, end = ""): string => (value === null ? "" : number(value) + end);
  return [
    ["load", ({ load }) => load],
    ["who", ({ who }) => who],
    ...asked.flatMap((name): Column<DeviceServeRow>[] => [
      [titles[name], ({ figures }) => cell(figures[name])],
      ["÷ generate", ({ ratios }) => cell(ratios[name], " ×")],
    ]),
    ["errors", ({ errors }) => String(errors)],
  ];
}

/** What a step of several texts takes, and how many times that of one. */
function stepLines(rows: readonly DeviceServeRow[]): string[] {
  const one = rows.find(({ texts }) => texts === 1)?.figures.token ?? null;
  return tableLines(
    [
      ["load", ({ load }) => load],
      ["who", ({ who }) => who],
      ["ms a step", ({ figures: { token } }) => (token === null ? "" : number(token))],
      ["÷ one text's", ({ figures: { token } }) => (token === null || one === null ? "" : `${number(token / one)} ×`)],
    ],
    rows,
    2,
  );
}

/** The tables. */
export function deviceServeText(report: DeviceServeReport): string {
  const { rows, server, machine, agreement, versions } = report;
  const of = (kind: DeviceServeRow["kind"]): DeviceServeRow[] => rows.filter((row) => row.kind === kind);
  const lines = [
    report.model,
    `the server: --context ${server.context} --blocks ${server.blocks} --max-running ${server.maxRunning}`,
    "",
  ];
  for (const kind of ["one", "many", "beside"] as const)
    if (of(kind).length > 0) lines.push(heads[kind], "", ...tableLines(columnsOf(of(kind)), of(kind), 2), "");
  if (of("step").length > 0) lines.push("Texts that are made together", "", ...stepLines(of("step")), "");
  for (const { load, reason } of report.skipped) lines.push(`left out: ${load}: ${reason}`);
  const wrong = rows.find(({ firstError }) => firstError !== null);
  if (wrong !== undefined) lines.push(`the first error: ${wrong.who}, ${wrong.load}: ${wrong.firstError}`);
  for (const { name, problem } of report.failed) lines.push(`${name} could not run here: ${problem}`);
  for (const { name, install } of report.missing) lines.push(`${name} is not installed: ${install}`);
  for (const each of agreement)
    lines.push(
      `${each.who} chooses the next token of ${each.same} prompts of ${each.compared} as generate does${agrees(each) ? "" : ": wrong result"}.`,
    );
  lines.push(
    `Medians of interleaved rounds (${report.rounds}), times in milliseconds. ÷ generate: the figure divided by the same one of generate, or of generateBatch.`,
    Object.entries(versions)
      .map((entry) => entry.join(" "))
      .join(", "),
    `${machine.gpu ?? report.backend}; ${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${report.command}`,
  );
  return lines.join("\n");
}
