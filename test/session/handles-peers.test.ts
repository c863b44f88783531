// Presents that stay inside beside onnxruntime-node, where the peers are installed: each is fed its own presents, and both say the same.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { type EmbeddedSizes, type PastPresentForm, pastPresentForm } from "../../tools/bench/embedded-forms.js";
import { publishedDecoder, smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { attributes } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { handOver, installed, openPeer, type PeerTensor, takeBack } from "../rewrite/peer.js";
import { exportedBytes, exportedTolerance } from "../support/exported-decoders.js";
import { Client, difference, type Past } from "./handle-client.js";

const embedded = (path: string): string => fileURLToPath(new URL(`../../models/embedded/${path}`, import.meta.url));
const config = JSON.parse(readFileSync(embedded("config.json"), "utf8")) as Record<string, number>;
const sizes: EmbeddedSizes = {
  layers: config["num_hidden_layers"],
  heads: config["num_attention_heads"],
  keyValueHeads: config["num_key_value_heads"],
  headSize: config["head_dim"],
  vocabulary: config["vocab_size"],
  ropeTheta: config["rope_theta"],
  positions: 2 * config["max_position_embeddings"],
};

/** The embedded model with past and present, its products of whole floats: those of 8 bits differ from runtime to runtime. */
function embeddedForm(form: PastPresentForm): Uint8Array {
  const model: Model = pastPresentForm(
    readModel(new Uint8Array(readFileSync(embedded("onnx/model.onnx")))),
    sizes,
    form,
  );
  const nodes = model.graph.nodes.map((node) =>
    node.attributes.has("accuracy_level")
      ? { ...node, attributes: new Map([...node.attributes, ...attributes({ accuracy_level: 0 })]) }
      : node,
  );
  return writeModel({ ...model, graph: { ...model.graph, nodes } });
}

const exported = ["llama_op20_eager", "gpt2_op18_sdpa", "phi3_op18_sdpa", "qwen3_op18_sdpa", "falcon_op18_sdpa"];
const models: readonly (readonly [string, () => Uint8Array])[] = [
  ["published", () => writeModel(publishedDecoder(smallPublishedSizes, { type: "float32" }))],
  ["embedded, GroupQueryAttention", () => embeddedForm("GroupQueryAttention")],
  ["embedded, Concat", () => embeddedForm("Concat")],
  ...exported.map((name) => [name, () => exportedBytes(name)] as const),
];

describe.skipIf(!installed)("the same tokens as onnxruntime-node", () => {
  test.each(models)("%s", async (name, bytesOf) => {
    const bytes = bytesOf();
    const client = new Client(await InferenceSession.create(bytes, { presents: "keep" }));
    const peer = await openPeer(bytes);
    const tolerance = 5 * exportedTolerance(name);
    let [ours, theirs]: readonly [Past, Past] = [client.empty(), client.empty()];
    let next = [5, 17, 3, 40, 8];
    for (let at = 0; at < 24; at++) {
      const step = await client.run([next], ours);
      const fed = Object.entries(client.feeds([next], theirs)).map(([input, tensor]) => [input, handOver(tensor)]);
      const results = await peer.run(Object.fromEntries(fed) as Record<string, PeerTensor>);
      const tensors = client.session.heldInputs.map(({ input, output }) => [input, takeBack(results[output])]);
      const other = { ...step, logits: takeBack(results[client.logits]), tensors: Object.fromEntries(tensors) };
      // What is read is no handle any more: only the last is.
      const own = at === 23 ? step : { ...step, tensors: {} };
      expect(await difference(own, at === 23 ? other : { ...other, tensors: {} }, tolerance), `step ${at}`).toBe("");
      [ours, theirs] = [step, other];
      const last = (step.logits.data as Float32Array).slice(-step.logits.dims.at(-1)!);
      next = [last.indexOf(Math.max(...last))];
    }
    expect(client.runs).toMatchObject({ started: 1, continued: 23, copied: 0, imported: 0, forked: 0, movedBytes: 0 });
    await peer.release();
  });
});
