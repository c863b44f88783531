// A decoder made by code that keeps three kinds of state: keys and values of GroupQueryAttention, the last columns that a convolution looks back on (cut
// anew by Slice, as LFM2 is published), and a matrix that LinearAttention updates. Random weights; every byte is a token.
import { buildModel, float, initializer, node, value } from "../../src/onnx/build.js";
import { type Model, type ModelNode, type ModelTensor, tensorView } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { seededRandom } from "../../src/graph/call.js";
import { byteTokenizer } from "../generate/support.js";
import { writeFolder } from "./published-folders.js";

/** What a hybrid is made of, from its first layer to its last. */
export interface HybridForm {
  readonly layers?: readonly ("conv" | "attention" | "recurrent")[];
  readonly positions?: number;
  readonly hidden?: number;
  readonly seed?: number;
  /** What the states without rows are called: an input's name becomes its output's where "past" becomes "present". */
  readonly names?: (layer: number, kind: "conv" | "recurrent") => readonly [input: string, output: string];
}

const vocabulary = 256;
const heads = 4;
const keyValueHeads = 2;

/** The decoder. */
export function hybridDecoder({
  layers = ["conv", "attention", "recurrent"],
  positions = 256,
  hidden = 32,
  seed = 1,
  names = (layer, kind) => [`past_${kind}.${layer}`, `present_${kind}.${layer}`],
}: HybridForm = {}): Model {
  const random = seededRandom(seed);
  const size = hidden / heads;
  const nodes: ModelNode[] = [];
  const initializers: ModelTensor[] = [];
  const floats = (name: string, dims: readonly number[], scale: number): string => {
    const count = dims.reduce((all, dim) => all * dim, 1);
    const data = Float32Array.from({ length: count }, () => (random() - 0.5) * 2 * scale);
    initializers.push(initializer(name, new Tensor("float32", data, [...dims])));
    return name;
  };
  const integers = (list: readonly number[]): string => {
    const name = `integers_${list.join("_")}`;
    if (!initializers.some((other) => other.name === name))
      initializers.push(initializer(name, new Tensor("int64", BigInt64Array.from(list, BigInt), [list.length])));
    return name;
  };
  let made = 0;
  const add = (
    op: string,
    inputs: readonly string[],
    attributes: Parameters<typeof node>[3] = {},
    outputs: readonly string[] = [`${op}_${++made}`],
    domain = "",
  ): string => {
    nodes.push(node(op, inputs, outputs, attributes, { name: `node_${outputs[0]}`, domain }));
    return outputs[0];
  };
  const linear = (input: string, from: number, to: number): string =>
    add("MatMul", [input, floats(`weight_${++made}`, [from, to], 1.7 / Math.sqrt(from))]);
  const norm = (input: string): string =>
    add("RMSNormalization", [input, floats(`norm_${++made}`, [hidden], 1.5)], { axis: -1 });

  const tables = [Math.cos, Math.sin].map((of, at) => {
    const data = new Float32Array((positions * size) / 2);
    for (let row = 0; row < positions; row++)
      for (let pair = 0; pair < size / 2; pair++)
        data[(row * size) / 2 + pair] = of(row / 10_000 ** ((2 * pair) / size));
    initializers.push(initializer(`table_${at}`, new Tensor("float32", data, [positions, size / 2])));
    return `table_${at}`;
  });
  const valid = add("ReduceSum", ["attention_mask", integers([1])], { keepdims: 0 });
  const lengths = add("Cast", [add("Sub", [valid, integers([1])])], { to: 6 });
  const columns = add("Shape", ["attention_mask"], { start: 1, end: 2 });
  const total = add("Cast", [add("Squeeze", [columns, integers([0])])], { to: 6 });

  const held: [input: ReturnType<typeof value>, output: ReturnType<typeof value>][] = [];
  const hold = (from: string, to: string, shape: readonly (number | string)[], grown = shape): void =>
    void held.push([value(from, "float32", shape), value(to, "float32", grown)]);
  let rows = add("Gather", [floats("embedding", [vocabulary, hidden], 1), "input_ids"]);
  for (const [layer, kind] of layers.entries()) {
    const input = norm(rows);
    let output: string;
    if (kind === "conv") {
      const [past, present] = names(layer, kind);
      const parts = ["b", "c", "x"].map((part) => `split_${layer}_${part}`);
      const projected = add("Transpose", [linear(input, hidden, 3 * hidden)], { perm: [0, 2, 1] });
      add("Split", [projected, integers([hidden, hidden, hidden])], { axis: 1 }, parts);
      const joined = add("Concat", [past, add("Mul", [parts[0], parts[2]])], { axis: 2 });
      const kernel = floats(`kernel_${layer}`, [hidden, 1, 3], 1);
      const convolved = add("Conv", [joined, kernel], { kernel_shape: [3], pads: [0, 0], group: hidden });
      // The first column is of the token before.
      const own = add("Slice", [convolved, integers([1]), integers([2 ** 40]), integers([2])]);
      add("Slice", [joined, integers([-3]), integers([2 ** 40]), integers([2])], {}, [present]);
      output = linear(add("Transpose", [add("Mul", [parts[1], own])], { perm: [0, 2, 1] }), hidden, hidden);
      hold(past, present, ["batch", hidden, 3]);
    } else if (kind === "attention") {
      const keys = keyValueHeads * size;
      const attended = add(
        "GroupQueryAttention",
        [
          linear(input, hidden, hidden),
          linear(input, hidden, keys),
          linear(input, hidden, keys),
          `past_key_values.${layer}.key`,
          `past_key_values.${layer}.value`,
          lengths,
          total,
          ...tables,
        ],
        { num_heads: heads, kv_num_heads: keyValueHeads, do_rotary: 1 },
        [`attended_${layer}`, `present.${layer}.key`, `present.${layer}.value`],
        "com.microsoft",
      );
      output = linear(attended, hidden, hidden);
      for (const which of ["key", "value"])
        hold(
          `past_key_values.${layer}.${which}`,
          `present.${layer}.${which}`,
          ["batch", keyValueHeads, "past", size],
          ["batch", keyValueHeads, "total", size],
        );
    } else {
      const [past, present] = names(layer, kind);
      const decay = add("Neg", [add("Softplus", [linear(input, hidden, heads)])]);
      const beta = add("Sigmoid", [linear(input, hidden, heads)]);
      // Keys of length 1: what they correct cannot grow.
      const key = add("Reshape", [linear(input, hidden, hidden), integers([0, 0, heads, size])]);
      const unit = add("LpNormalization", [key], { axis: -1, p: 2 });
      const attended = add(
        "LinearAttention",
        [
          linear(input, hidden, hidden),
          add("Reshape", [unit, integers([0, 0, hidden])]),
          linear(input, hidden, hidden),
          past,
          decay,
          beta,
        ],
        { q_num_heads: heads, kv_num_heads: heads, update_rule: "gated_delta", scale: float(1) },
        [`recalled_${layer}`, present],
      );
      output = linear(attended, hidden, hidden);
      hold(past, present, ["batch", heads, size, size]);
    }
    rows = add("Add", [rows, output]);
  }
  add("MatMul", [norm(rows), floats("head", [hidden, vocabulary], 0.5)], {}, ["logits"]);
  // Texts are letters: what is made is read again as the same tokens.
  const head = initializers.at(-1)!;
  const columnsOf = tensorView(head).data as Float32Array;
  for (let at = 0; at < columnsOf.length; at++) if (at % vocabulary < 33 || at % vocabulary > 126) columnsOf[at] = 0;
  return buildModel({
    name: "hybrid",
    opset: { "": 27, "com.microsoft": 1 },
    inputs: [
      value("input_ids", "int64", ["batch", "sequence"]),
      value("attention_mask", "int64", ["batch", "total"]),
      ...held.map(([input]) => input),
    ],
    outputs: [value("logits", "float32", ["batch", "sequence", vocabulary]), ...held.map(([, output]) => output)],
    nodes,
    initializers,
  });
}

/** A template that begins each turn with a byte of its own. */
const template = "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}\n{% endfor %}<a>";

/** The decoder in a folder of the hub's layout. */
export function hybridFolder(form: HybridForm = {}): { readonly path: string; remove(): void } {
  const { positions = 256 } = form;
  return writeFolder([
    ["onnx/model.onnx", writeModel(hybridDecoder(form))],
    ["tokenizer.json", byteTokenizer()],
    ["tokenizer_config.json", { eos_token: "\u0100", chat_template: template }],
    ["config.json", { vocab_size: vocabulary, max_position_embeddings: positions, model_type: "lfm2" }],
  ]);
}
