// A published file with the activations of its products rounded where it allows bytes, as onnxruntime's CPU provider rounds them: blocks as long as the
// weights', 127 levels a side. The reference implementation, which never rounds, then says what onnxruntime should.
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { initializer, node } from "../../../dist/onnx/build.js";
import { readModel } from "../../../dist/onnx/read.js";
import { writeModel } from "../../../dist/onnx/write.js";
import { tensorOf } from "./traces.mjs";

const attribute = ({ attributes }, name) => Number(attributes.get(name)?.value ?? 0);

/** True for a product that onnxruntime computes with bytes. */
export const mayRound = (each) => each.opType === "MatMulNBits" && attribute(each, "accuracy_level") === 4;

/** A new folder with the file changed. The caller removes it. */
export function roundedFolder(folder) {
  const place = mkdtempSync(join(tmpdir(), "insitu-rounded-"));
  for (const name of readdirSync(folder))
    if (name !== "model.onnx") copyFileSync(join(folder, name), join(place, name));
  const model = readModel(readFileSync(join(folder, "model.onnx")));
  const [nodes, constants, rounded] = [[], new Map(), new Map()];
  const constant = (name, type, dims, values) => {
    constants.set(name, initializer(name, tensorOf(type, dims, values)));
    return name;
  };
  for (const each of model.graph.nodes) {
    if (!mayRound(each)) {
      nodes.push(each);
      continue;
    }
    const [values, size, depth] = [each.inputs[0], attribute(each, "block_size"), attribute(each, "K")];
    const at = `rounded/${size}/${values}`;
    if (!rounded.has(at)) {
      const one = (name) => constant(`rounded/${name}`, "int64", [1], [Number(name)]);
      const add = (op, inputs, attributes) => {
        const made = `${at}/${nodes.length}`;
        nodes.push(node(op, inputs, [made], attributes, { name: made }));
        return made;
      };
      const rows = add("Reshape", [
        add("Cast", [values], { to: 1 }),
        constant(`rows${depth}`, "int64", [2], [-1, depth]),
      ]);
      const ends = constant(`ends${depth}`, "int64", [4], [0, 0, 0, Math.ceil(depth / size) * size - depth]);
      const blocks = add("Reshape", [add("Pad", [rows, ends]), constant(`blocks${size}`, "int64", [2], [-1, size])]);
      const most = add("ReduceMax", [add("Abs", [blocks]), one("1")], { keepdims: 1 });
      const least = constant("rounded/least", "float32", [], [1e-30]);
      const scale = add("Max", [add("Div", [most, constant("rounded/levels", "float32", [], [127])]), least]);
      const whole = add("Mul", [add("Round", [add("Div", [blocks, scale])]), scale]);
      const padded = constant(`padded${depth}/${size}`, "int64", [2], [-1, Math.ceil(depth / size) * size]);
      const cut = add("Slice", [add("Reshape", [whole, padded]), one("0"), one(String(depth)), one("1")]);
      rounded.set(at, add("CastLike", [add("Reshape", [cut, add("Shape", [values])]), values]));
    }
    const attributes = new Map(each.attributes);
    attributes.set("accuracy_level", { ...attributes.get("accuracy_level"), value: 1n });
    nodes.push({ ...each, inputs: [rounded.get(at), ...each.inputs.slice(1)], attributes });
  }
  const initializers = [...model.graph.initializers, ...constants.values()];
  writeFileSync(join(place, "model.onnx"), writeModel({ ...model, graph: { ...model.graph, nodes, initializers } }));
  return place;
}
