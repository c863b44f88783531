/** If: one of two graphs. Loop and Scan are in files of their own. */
import { InsituError } from "../../base/error.js";
import { graph, required } from "../../graph/attribute.js";
import { sameDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { defineOp, type OutputFact, tensor, variadic } from "../../graph/op.js";
import { contentsOf } from "../shared/rules/contents.js";
import { checkOneElement } from "../shared/rules/operands.js";
import { anyType } from "../shared/rules/types.js";
import { checkReturned, handOut, joinShapes, outputsOf, truthOf } from "./body.js";
import { loop } from "./loop.js";
import { scan } from "./scan.js";
import { scan8 } from "./scan-8.js";

/** What holds for both facts. */
function join(a: Fact, b: Fact): OutputFact {
  const [left, right] = [contentsOf(a), contentsOf(b)];
  const same =
    left !== undefined &&
    right !== undefined &&
    left.length === right.length &&
    left.every((dim, at) => sameDim(dim, right[at]));
  return { type: a.type, shape: joinShapes(a.shape, b.shape), integers: same ? left : undefined };
}

const alone = (fact: Fact): OutputFact => ({ type: fact.type, shape: fact.shape, integers: contentsOf(fact) });

/** Runs `then_branch` or `else_branch`. */
export const If = defineOp({
  name: "If",
  since: 1,
  types: { V: anyType },
  inputs: { cond: tensor("bool") },
  outputs: { outputs: variadic(tensor("V"), { heterogeneous: true }) },
  attrs: { else_branch: required(graph()), then_branch: required(graph()) },
  infer(call) {
    const { cond } = call.inputs;
    checkOneElement(call, "cond", cond);
    const [known] = contentsOf(cond) ?? [];
    const branch = (name: "then_branch" | "else_branch"): readonly Fact[] => {
      const facts = call.inferBody(name, []);
      checkReturned(call, name, facts.length, call.outputCount);
      return facts;
    };
    if (typeof known === "number") return { outputs: branch(known === 0 ? "else_branch" : "then_branch").map(alone) };
    // A branch for shapes that do not occur here, such as a Squeeze of a dimension other than 1, is one that is never taken.
    const attempt = (name: "then_branch" | "else_branch"): readonly Fact[] | InsituError => {
      try {
        return branch(name);
      } catch (error) {
        if (error instanceof InsituError && (error.code === "shape-mismatch" || error.code === "invalid-argument"))
          return error;
        throw error;
      }
    };
    const taken = attempt("then_branch");
    const other = attempt("else_branch");
    if (taken instanceof InsituError && other instanceof InsituError) throw taken;
    if (taken instanceof InsituError) return { outputs: (other as readonly Fact[]).map(alone) };
    if (other instanceof InsituError) return { outputs: taken.map(alone) };
    call.check(
      taken.length === other.length,
      () => `both branches must return as many values, got ${taken.length} and ${other.length}`,
      "invalid-graph",
    );
    taken.forEach((fact, at) => {
      call.check(
        fact.type === other[at].type,
        () => `both branches must return the same types, got ${fact.type} and ${other[at].type} for output ${at}`,
        "type-mismatch",
      );
    });
    return { outputs: taken.map((fact, at) => join(fact, other[at])) };
  },
  reference(call) {
    const values = call.run(truthOf(call, "cond", call.inputs.cond) ? "then_branch" : "else_branch", []);
    const outputs = outputsOf(call, "outputs");
    values.forEach((value, at) => handOut(outputs, at, value));
  },
});

/** Runs a body until a count or a condition ends it. */
export const Loop = loop;

/** Runs a body for each element of batches of sequences. */
export const Scan8 = scan8;

/** Runs a body for each element along an axis. */
export const Scan9 = scan;
