/** The set of every declared operator: looked up by domain, name and opset version. The list itself is generated from the folders. */
import { InsituError } from "../base/error.js";
import type { Op, OperatorSet } from "../graph/op.js";
import { declarations } from "./index.gen.js";

const keyOf = (domain: string, name: string): string => `${domain}::${name}`;

/** A look-up over declarations. */
function operatorSet(): OperatorSet & { add(more: readonly Op[]): void } {
  const all: Op[] = [];
  const byName = new Map<string, Op[]>();
  const find = (domain: string, name: string, opset: number): Op | undefined =>
    byName.get(keyOf(domain, name))?.find((op) => op.since <= opset);
  return {
    all,
    find,
    add(more) {
      all.push(...more);
      for (const op of more) {
        const key = keyOf(op.domain, op.name);
        const versions = byName.get(key) ?? [];
        byName.set(key, versions);
        versions.push(op);
      }
      for (const versions of byName.values()) versions.sort((a, b) => b.since - a.since);
    },
    missing(domain, name, opset, label) {
      const spelled = domain === "" ? "ai.onnx" : domain;
      const versions = byName.get(keyOf(domain, name));
      const hint =
        versions !== undefined
          ? `it is supported from opset ${versions.at(-1)!.since} on`
          : `the nearest supported one is ${nearest(domain, name, all)}`;
      return new InsituError(
        "unsupported-operator",
        `${label}: operator ${name} of domain ${spelled}, opset ${opset}, is not supported; ${hint}`,
      );
    },
  };
}

function nearest(domain: string, name: string, all: readonly Op[]): string {
  let best = "";
  let least = Infinity;
  for (const op of all) {
    const distance = editDistance(name.toLowerCase(), op.name.toLowerCase()) + (op.domain === domain ? 0 : 0.5);
    if (distance < least) [best, least] = [op.domain === "" ? op.name : `${op.domain}::${op.name}`, distance];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= Math.min(a.length, 64); i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length] + Math.max(0, a.length - 64);
}

/** All operators that insitu has; in bundles for pages, those that have come so far. */
export const operators: OperatorSet & { add(more: readonly Op[]): void } = operatorSet();
operators.add(declarations);
