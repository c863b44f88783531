/** How many positions the rotary tables of a model reach: a text that is longer has no row there. Looks at declarations alone; no weight need be loaded. */
import { InsituError } from "#insitu/base/error.js";
import type { Model, ModelNode } from "#insitu/onnx/model.js";

/** The first table that ends, and the node that reads it. */
interface RotaryReach {
  readonly positions: number;
  readonly node: string;
  readonly table: string;
}

/** Where each operator has its cosines. */
const cosines: Readonly<Record<string, number | undefined>> = {
  "/RotaryEmbedding": 1,
  "com.microsoft/RotaryEmbedding": 2,
  "com.microsoft/GroupQueryAttention": 7,
};

/** The shortest tables of a model; undefined where tables are none, or made while it runs. */
export function rotaryReach({ graph }: Model): RotaryReach | undefined {
  const rows = new Map(graph.initializers.map(({ name, dims }) => [name, Number(dims[0] ?? Infinity)]));
  const found = graph.nodes.flatMap((node): RotaryReach[] => {
    const table = node.inputs[cosines[`${node.domain}/${node.opType}`] ?? Infinity];
    const positions = table === undefined || !isTurned(node) ? undefined : rows.get(table);
    return positions === undefined
      ? []
      : [{ positions, node: `${node.opType} "${node.name || node.outputs[0]}"`, table: table! }];
  });
  return found.length === 0
    ? undefined
    : found.reduce((least, each) => (each.positions < least.positions ? each : least));
}

const isTurned = ({ opType, attributes }: ModelNode): boolean => {
  const rotates = attributes.get("do_rotary");
  return opType !== "GroupQueryAttention" || (rotates?.kind === "int" && Number(rotates.value) === 1);
};

/** A context within tables; throws for one that was asked for and is not. `file`: whose tables they are. */
export function withinReach(
  length: number,
  asked: number | undefined,
  reach: RotaryReach | undefined,
  file: string,
): number {
  if (reach === undefined) return length;
  if (asked !== undefined && asked > reach.positions)
    throw new InsituError(
      "invalid-argument",
      `option context is ${asked}, and the rotary table "${reach.table}" of ${reach.node} in "${file}" has ${reach.positions} rows: ask for context: ${reach.positions} or less, or take a file that was made for longer texts`,
    );
  return Math.min(length, reach.positions);
}
