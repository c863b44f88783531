/**
 * Sizes of a graph's inputs that the file hides behind symbols and that operators fix: what is updated has the shape of what it becomes, but for
 * the axis along which it grows, and what is appended to has the other sizes of what comes behind it. Asks declarations and facts alone.
 */
import { type Dim, isKnown, type Shape } from "./dim.js";
import type { Fact } from "./fact.js";
import type { Graph, Node, Value } from "./graph.js";

/** The shapes of inputs in which facts of the graph fix more than the file says; none where the file says it all. */
export function fixedShapes(graph: Graph, facts: ReadonlyMap<Value, Fact>): ReadonlyMap<Value, Shape> {
  const inputs = new Set(graph.inputs);
  const fixed = new Map<Value, Shape>();
  for (const node of graph.nodes)
    for (const { past, present, axis } of carriedBy(node)) {
      const known = fixed.get(past) ?? facts.get(past)?.shape;
      const found = facts.get(present)?.shape;
      if (!inputs.has(past) || known === undefined || found?.length !== known.length) continue;
      const along = axis !== undefined && axis < 0 ? axis + known.length : axis;
      const isHidden = (dim: Dim, at: number): boolean => at !== along && !isKnown(dim) && isKnown(found[at]);
      if (known.some(isHidden))
        fixed.set(
          past,
          known.map((dim, at) => (isHidden(dim, at) ? found[at] : dim)),
        );
    }
  return fixed;
}

/** An operand, what becomes of it, and the axis along which that is longer. */
interface Carried {
  readonly past: Value;
  readonly present: Value;
  readonly axis: number | undefined;
}

function carriedBy({ op, inputs, outputs, attrs }: Node): Carried[] {
  const names = Object.keys(op.inputs);
  const outputNames = Object.keys(op.outputs);
  const carried = outputs.flatMap((present, at): Carried[] => {
    const effect = op.effects[outputNames[at]];
    const past = effect?.kind === "update" ? inputs[names.indexOf(effect.of)] : undefined;
    return present === undefined || past === undefined || effect?.kind !== "update"
      ? []
      : [{ past, present, axis: effect.grows }];
  });
  const [past, present] = [op.appends && inputs[names.indexOf(op.appends.to)], outputs[0]];
  if (past !== undefined && present !== undefined)
    carried.push({ past, present, axis: Number(attrs[op.appends!.along]) });
  return carried;
}
