/** Tables of a plan whose rows stay in their file until a step asks for them: which they are, and what brings the rows that a step asks for. */
import type { Node, Value } from "../graph/graph.js";
import { readsOf } from "../graph/graph.js";
import type { Plan } from "../plan/plan.js";
import { type RestingView, RowsView } from "../tensor/rows.js";
import type { View } from "../tensor/view.js";

/** The input of a node that it reads rows of, and the one that names them; undefined where it reads none by rows. */
function rowsOf({ op, attrs, bodies }: Node): { readonly of: number; readonly by: number } | undefined {
  if (op.picksRows === undefined || bodies.size > 0 || attrs[op.picksRows.along] !== 0) return undefined;
  const names = Object.keys(op.inputs);
  return { of: names.indexOf(op.picksRows.of), by: names.indexOf(op.picksRows.by) };
}

/** The initializers of a plan of which all steps read rows, and no step the whole. */
export function readByRows({ graph }: Plan): ReadonlySet<Value> {
  const tables = new Set<Value>();
  const whole = new Set<Value>([...graph.inputs, ...graph.outputs]);
  for (const node of graph.nodes) {
    const rows = rowsOf(node);
    const table = rows === undefined ? undefined : node.inputs[rows.of];
    for (const value of readsOf(node)) {
      if (value.initializer === undefined) continue;
      const isTable = value === table && node.inputs.indexOf(value) === node.inputs.lastIndexOf(value);
      (isTable ? tables : whole).add(value);
    }
  }
  for (const value of whole) tables.delete(value);
  return tables;
}

/** Those of them whose rows stay in their file, as the steps see them. */
export function rowTables(plan: Plan): ReadonlyMap<Value, RestingView> {
  const tables = new Map<Value, RestingView>();
  for (const value of readByRows(plan)) {
    const { initializer } = value;
    if (initializer instanceof RowsView && initializer.resting !== undefined) tables.set(value, initializer.resting);
  }
  return tables;
}

/** What brings the rows that a node asks for; undefined where it asks for none of such a table. */
export function bringsRows(
  node: Node,
  operands: readonly (View | undefined)[],
  tables: ReadonlyMap<Value, RestingView>,
): (() => void) | undefined {
  if (tables.size === 0 || node.op.picksRows === undefined) return undefined;
  const rows = rowsOf(node);
  const table = rows && node.inputs[rows.of] && tables.get(node.inputs[rows.of]!);
  const indices = rows && operands[rows.by];
  return table && indices && (() => table.whole.elements.want(indices));
}
