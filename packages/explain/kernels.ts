/** Which steps kernels do and which the reference, in words: for each step, and all in all. */
import type { Node } from "#insitu/graph/graph.js";
import type { Plan } from "#insitu/plan/plan.js";
import type { StepAccount } from "#insitu/backends/step-account.js";
import type { SessionFacts } from "./gather.js";

/** How a node runs; undefined where nothing is known of it. */
export function runsOf(node: Node, { accounts }: Pick<SessionFacts, "accounts">): StepAccount | undefined {
  return accounts && (accounts.get(node) ?? { runs: "beforehand" });
}

/** The same in a few words. */
export function runsText(account: StepAccount | undefined): string {
  if (account === undefined) return "";
  const { runs, kernels, reasons = [] } = account;
  switch (runs) {
    case "nothing":
      return "nothing to do";
    case "beforehand":
      return "known beforehand";
    case "reference":
      return `on the reference: ${reasons.join("; ")}`;
    case "kernel":
      return [`by ${kernels?.join(", ") ?? "a kernel"}`, ...reasons].join("; ");
    default:
      return runs satisfies never;
  }
}

/** All steps in a few lines: how many kernels do, and for each operator that the reference does, why. */
export function kernelLines({ order }: Plan, facts: Pick<SessionFacts, "accounts">): string[] {
  if (facts.accounts === undefined) return [];
  const counts = { kernel: 0, reference: 0, nothing: 0, beforehand: 0 };
  const slow = new Map<string, number>();
  for (const node of order) {
    const { runs, reasons = [] } = runsOf(node, facts)!;
    counts[runs]++;
    if (runs !== "reference") continue;
    const line = `${node.op.name}: ${reasons.join("; ")}`;
    slow.set(line, (slow.get(line) ?? 0) + 1);
  }
  const some = (count: number, what: string): readonly string[] => (count === 0 ? [] : [`${count} ${what}`]);
  const parts = [
    `${counts.kernel} of ${order.length} steps by kernels`,
    ...some(counts.nothing, "with nothing to do"),
    ...some(counts.beforehand, "known beforehand"),
    `${counts.reference || "none"} on the reference`,
  ];
  return ["kernels", `  ${parts.join(", ")}`, ...[...slow].map(([line, times]) => `  ${times} × ${line}`), ""];
}
