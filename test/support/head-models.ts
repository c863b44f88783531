// A decoder made by code that hands out its hidden states, and a head that guesses for it: the decoder's own layer on the token that was chosen, and a
// little of the hidden state that it was chosen by. The head does not see the prompt: it is often right, and not always.
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { initializer, node, value } from "../../src/onnx/build.js";
import { type Model, tensorView } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { seededRandom } from "../../src/graph/call.js";
import { byteTokenizer } from "../generate/support.js";
import { writeFolder } from "./published-folders.js";

const sizes = { ...smallSizes, layers: 1, vocabulary: 256, positions: 256 };
const { hidden } = sizes;

/** A decoder of one layer that listens to its last token more than to those before. */
function decoder(vocabulary: number): Model {
  const model = generatedDecoder({ ...sizes, vocabulary });
  const { graph } = model;
  const initializers = graph.initializers.map((tensor) =>
    tensor.name === "layer.0.o.weight"
      ? initializer(
          tensor.name,
          "float32",
          (tensorView(tensor).data as Float32Array).map((x) => x / 4),
          tensor.dims,
        )
      : tensor,
  );
  return { ...model, graph: { ...graph, initializers } };
}

/** How a head is written. */
export interface HeadForm {
  /** "mtp" as onnxruntime-genai has it; "eagle3" reads its own states by an input of their own. */
  readonly kind?: "mtp" | "eagle3";
  /** Hands on what stands for the hidden state behind its guess. */
  readonly chains?: boolean;
  readonly size?: number;
  readonly vocabulary?: number;
}

/** The decoder. */
export function headedDecoder(handsOut = true): Model {
  const model = decoder(256);
  if (!handsOut) return model;
  const { graph } = model;
  const output = value("hidden_states", "float32", ["batch", "sequence", hidden]);
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [...graph.nodes, node("Identity", ["norm"], ["hidden_states"])],
      outputs: [...graph.outputs, output],
    },
  };
}

/** The head. */
export function headModel({ kind = "mtp", chains = true, size = hidden, vocabulary = 256 }: HeadForm = {}): Model {
  const model = decoder(vocabulary);
  const { graph } = model;
  const random = seededRandom(7);
  // What is read of the hidden state, above what passes the token's embedding on.
  const weights = Float32Array.from({ length: (size + hidden) * hidden }, (_, at) => {
    const [row, column] = [Math.floor(at / hidden), at % hidden];
    return row < size ? (random() - 0.5) * 0.2 : row - size === column ? 1 : 0;
  });
  const isEagle = kind === "eagle3";
  const read = isEagle ? "combined" : "hidden_states";
  const states = isEagle ? ["fused_hidden", "recycled_hidden"] : ["hidden_states"];
  const feedback = isEagle ? "next_hidden" : "hidden_states_out";
  const rename = (name: string): string => (isEagle && name === "logits" ? "draft_logits" : name);
  const nodes = graph.nodes.map((each) => ({
    ...each,
    outputs: each.outputs.map((name) => (name === "embedded" ? "token" : rename(name))),
  }));
  const [embed, ...others] = nodes;
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [
        embed,
        ...(isEagle ? [node("Add", states, [read])] : []),
        node("Concat", [read, "token"], ["both"], { axis: -1 }),
        node("MatMul", ["both", "fc"], ["embedded"]),
        ...others,
        ...(chains ? [node("Identity", ["norm"], [feedback])] : []),
      ],
      initializers: [...graph.initializers, initializer("fc", "float32", weights, [size + hidden, hidden])],
      inputs: [...graph.inputs, ...states.map((name) => value(name, "float32", ["batch", "sequence", size]))],
      outputs: [
        ...graph.outputs.map((output) => ({ ...output, name: rename(output.name) })),
        ...(chains ? [value(feedback, "float32", ["batch", "sequence", hidden])] : []),
      ],
    },
  };
}

/** Both in a folder, as onnxruntime-genai lays them out. */
export function headedFolder(
  form: HeadForm = {},
  { handsOut = true, withHead = true }: { readonly handsOut?: boolean; readonly withHead?: boolean } = {},
): { readonly path: string; remove(): void } {
  const name = form.kind === "eagle3" ? "eagle3.onnx" : "mtp.onnx";
  const genai = {
    model: {
      type: "llama",
      vocab_size: 256,
      context_length: 128,
      decoder: { filename: "model.onnx", outputs: { hidden_states: "hidden_states" } },
      mtp: {
        filename: "mtp.onnx",
        inputs: { hidden_states: "hidden_states" },
        outputs: { hidden_states: "hidden_states_out" },
      },
    },
    search: {},
  };
  return writeFolder([
    ["model.onnx", writeModel(headedDecoder(handsOut))],
    ...(withHead ? [[name, writeModel(headModel(form))] as const] : []),
    ["tokenizer.json", byteTokenizer()],
    ["tokenizer_config.json", { eos_token: "\u0100" }],
    ...(form.kind === "eagle3"
      ? [["config.json", { vocab_size: 256, max_position_embeddings: 128, model_type: "llama" }] as const]
      : [["genai_config.json", genai] as const]),
  ]);
}
