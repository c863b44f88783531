/** A report as a person reads it: one table a group, ratios beside times, then where the figures come from. */
import { bytesText } from "#insitu/base/bytes-text.js";
import type { ContestantReport, GroupReport, Report } from "./report.js";

/** A time in the unit that leaves it readable: `11.4 µs`, `48.9 ms`. */
export function timeText(milliseconds: number): string {
  const size = Math.abs(milliseconds);
  if (size < 1) return `${significant(milliseconds * 1000)} µs`;
  return size < 1000 ? `${significant(milliseconds)} ms` : `${significant(milliseconds / 1000)} s`;
}

/** Three significant figures, no exponent, thousands apart. */
const significant = (value: number): string =>
  Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));

/** `4,230 ×` */
export const ratioText = (ratio: number): string => `${significant(ratio)} ×`;

type Column = readonly [title: string, cell: (contestant: ContestantReport) => string];

const kernelColumns: readonly Column[] = [
  ["kernels", ({ kernelMs }) => (kernelMs === null ? "" : timeText(kernelMs))],
  ["ratio", ({ kernelRatio }) => (kernelRatio === null ? "" : ratioText(kernelRatio))],
];

function columnsOf({ contestants }: GroupReport): Column[] {
  const kernels = contestants.some(({ kernelMs }) => kernelMs !== null);
  const indices = contestants.some(({ costs }) => costs.indexBytes !== undefined);
  const written = contestants.some(({ costs }) => costs.writtenBytes !== undefined);
  const size = (bytes: number | undefined): string => (bytes === undefined ? "" : bytesText(bytes));
  return [
    ["", ({ name }) => name],
    ["median", ({ medianMs }) => timeText(medianMs)],
    ["middle half", ({ lowerQuartileMs: low, upperQuartileMs: high }) => `${timeText(low)} to ${timeText(high)}`],
    ["ratio", ({ ratio }) => (ratio === null ? "wrong result" : ratioText(ratio))],
    ...(kernels ? kernelColumns : []),
    ...(indices ? ([["indices", ({ costs }) => size(costs.indexBytes)]] as Column[]) : []),
    ...(written ? ([["written", ({ costs }) => size(costs.writtenBytes)]] as Column[]) : []),
    ...figureNames(contestants).map((name): Column => [name, ({ figures }) => figureText(figures[name])]),
  ];
}

/** What the figures of a group are called, in the order in which they come. */
const figureNames = (contestants: readonly ContestantReport[]): string[] => [
  ...new Set(contestants.flatMap(({ figures }) => Object.keys(figures))),
];

/** A figure in a table; nothing where there is none. */
export const figureText = (figure: number | undefined): string => (figure === undefined ? "" : significant(figure));

function groupText(group: GroupReport): string {
  const columns = columnsOf(group);
  const rows = [
    columns.map(([title]) => title),
    ...group.contestants.map((each) => columns.map(([, cell]) => cell(each))),
  ];
  const widths = columns.map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  const lines = (group.contestants.length === 0 ? [] : rows).map((row) =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]) : cell.padStart(widths[at]))).join("  "),
  );
  const problems = group.contestants.flatMap(({ name, problem }) => (problem === null ? [] : [`${name}: ${problem}`]));
  const failed = group.failed.map(({ name, problem }) => `${name} failed: ${problem}`);
  return [group.name, ...[...lines, ...problems, ...failed].map((line) => `  ${line.trimEnd()}`)].join("\n");
}

/** Loads whose runtimes have processes of their own. */
const hasProcesses: ReadonlySet<string> = new Set(["device", "clients", "models"]);

/** The report as text. */
export function reportText(report: Report): string {
  const { machine, versions, backend, threads } = report;
  const peers = Object.entries(versions).filter(([name]) => name !== "insitu");
  return [
    ...report.loads.map(({ name, description, groups }) =>
      [`${name}: ${description}`, ...groups.map(groupText)].join("\n\n"),
    ),
    [
      `insitu ${versions["insitu"]} on its ${backend} backend, ${threads} ${threads === 1 ? "thread" : "threads"}${peers.map(([name, version]) => `, ${name} ${version}`).join("")}`,
      `${machine.gpu === null ? "" : `${machine.gpu}; `}${machine.cpu}, ${machine.cores} cores, ${bytesText(machine.memoryBytes)}, ${machine.platform}, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)}`,
      `Medians of interleaved rounds${report.loads.some(({ name }) => hasProcesses.has(name)) ? ", each runtime in a process of its own" : " in one process"}; a ratio says how many times longer than the group's first.`,
      `command: ${report.command}`,
    ].join("\n"),
    ...report.missing.map(
      ({ name, install }) => `${name} is not installed, so it was left out; ${install} installs it in a checkout.`,
    ),
  ].join("\n\n");
}
