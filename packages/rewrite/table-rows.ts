/**
 * Which rows of joined rotary tables a run looks up: those for long texts stand behind those for short ones, and the number of rows that a text has tells
 * which it is. For attentions that rotate, and for RotaryEmbedding beside them.
 */
import { InsituError } from "#insitu/base/error.js";
import { type AttributeInput, float } from "#insitu/onnx/build.js";
import type { ModelAttribute, ModelNode } from "#insitu/onnx/model.js";
import type { Value } from "#insitu/graph/graph.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import { names } from "./decoder-names.js";
import type { ModelEdit } from "./model-edit.js";
import type { RotaryTables } from "./rotary-tables.js";

/** The rows at positions [batch, sequence]: those of long texts, and of positions that no short one has, stand further on. */
export function tableRows(edit: ModelEdit, positions: string, { limit, offset }: RotaryTables): string {
  const isText = edit.node("Greater", [names.lengths, edit.scalar("int64", limit)]);
  const isBeyond = edit.node("GreaterOrEqual", [positions, edit.scalar("int64", offset)]);
  const isLong = edit.node("Or", [edit.node("Unsqueeze", [isText, edit.integers([1])]), isBeyond]);
  const number = edit.node("Cast", [isLong], { attributes: { to: traitsOf("int64").code } });
  const further = edit.node("Mul", [number, edit.scalar("int64", offset)]);
  return edit.node("Add", [positions, further], { as: "table_rows" });
}

/** Where RotaryEmbedding has its positions: ONNX's own, and onnxruntime's. */
const placeOfPositions: Readonly<Record<string, number>> = { "": 3, "com.microsoft": 1 };

/** Has RotaryEmbedding look up the rows of joined tables. Throws for positions that are not one for each token. */
export function chooseRows(
  edit: ModelEdit,
  nodes: readonly ModelNode[],
  tables: RotaryTables,
  values: ReadonlyMap<string, Value>,
): void {
  for (const node of nodes) {
    const place = placeOfPositions[node.domain];
    const readsTables = node.inputs.some((name) => tables.names.includes(name));
    if (node.opType !== "RotaryEmbedding" || place === undefined || !readsTables) continue;
    const positions = values.get(node.inputs[place] ?? "");
    const { shape, type } = positions?.fact ?? {};
    if (positions === undefined || shape?.length !== 2 || type !== "int64")
      throw new InsituError(
        "invalid-graph",
        `RotaryEmbedding "${node.name || node.outputs[0]}": it looks up rotary tables for short and for long texts, and its positions are not int64 [batch, sequence], one for each token: export it with position_ids of that shape`,
      );
    edit.replace(node.outputs[0], () => {
      const rows = tableRows(edit, positions.name, tables);
      edit.node(node.opType, node.inputs.with(place, rows), {
        domain: node.domain,
        attributes: plain(node.attributes),
        output: node.outputs[0],
        name: node.name,
      });
    });
  }
}

/** Attributes of numbers, as nodes are made with them. */
const plain = (attributes: ReadonlyMap<string, ModelAttribute>): Record<string, AttributeInput> =>
  Object.fromEntries(
    [...attributes].flatMap(([name, attribute]): [string, AttributeInput][] => {
      if (attribute.kind === "int") return [[name, Number(attribute.value)]];
      return attribute.kind === "float" ? [[name, float(attribute.value)]] : [];
    }),
  );
