/**
 * What attention decides by the number of a row: windows count rows back from the query, masks have a column for each row. While every row
 * is there, a row's number is its position; whoever takes rows out from between must ask.
 */
import type { Graph, Node } from "../graph/graph.js";

/** What the attention of a model decides by rows. */
export interface RowRules {
  /** Rows that the widest window shows, the query's own among them; undefined where every row is seen. */
  readonly window: number | undefined;
  /** A node that reads a mask over the rows of a cache. */
  readonly masked: string | undefined;
  /** True if a node counts a sample's rows from the front: there can be no padding before them. */
  readonly fromFront: boolean;
}

/** The rules of a graph, and of the graphs inside it. */
export function rowRulesOf(graph: Graph): RowRules {
  const nodes = allNodes(graph);
  const windows = nodes.flatMap(({ op, attrs }) => op.rows.window(attrs) ?? []);
  const masked = nodes.find(({ op, inputs }) =>
    Object.keys(op.inputs).some((name, at) => op.rows.masks.includes(name) && inputs[at] !== undefined),
  );
  return {
    window: windows.length === 0 ? undefined : Math.max(...windows),
    masked: masked?.name,
    fromFront: nodes.some(({ op }) => op.rows.fromFront),
  };
}

const allNodes = ({ nodes }: Graph): Node[] =>
  nodes.flatMap((node) => [node, ...[...node.bodies.values()].flatMap(allNodes)]);
