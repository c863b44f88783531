/**
 * Model → Model: positions of [3, batch, tokens], one row each for time, height and width of what images and films show, become one row that is
 * repeated: in a text the three are the same.
 */
import { initializer, node as makeNode } from "#insitu/onnx/build.js";
import type { Model } from "#insitu/onnx/model.js";
import { Tensor } from "#insitu/tensor/tensor.js";

const positions = "position_ids";

/** The model with positions of [batch, tokens]; the model itself where it has none of three rows. */
export function flatPositions(model: Model): Model {
  const { graph } = model;
  const input = graph.inputs.find(({ name }) => name === positions);
  const type = input?.type?.kind === "tensor" ? input.type : undefined;
  if (input === undefined || type?.shape?.length !== 3 || type.shape[0] !== 3) return model;
  const [rows, axes, row] = [`insitu/${positions}`, "insitu/first_axis", "insitu/position_row"];
  const read = (name: string): string => (name === positions ? rows : name);
  return {
    ...model,
    graph: {
      ...graph,
      inputs: graph.inputs.map((each) =>
        each === input ? { ...input, type: { ...type, shape: type.shape!.slice(1) } } : each,
      ),
      initializers: [...graph.initializers, initializer(axes, new Tensor("int64", BigInt64Array.of(0n), [1]))],
      nodes: [
        makeNode("Unsqueeze", [positions, axes], [row]),
        makeNode("Concat", [row, row, row], [rows], { axis: 0 }),
        ...graph.nodes.map((node) =>
          node.inputs.includes(positions) ? { ...node, inputs: node.inputs.map(read) } : node,
        ),
      ],
    },
  };
}
