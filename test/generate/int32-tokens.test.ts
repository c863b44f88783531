// A decoder whose tokens are int32: what that type cannot hold is refused, not read as another token.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import { Decoder } from "../../src/decoder/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { node, value } from "../../src/onnx/build.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";

test("tokens past 2^31", async () => {
  const archive = fileURLToPath(new URL("../models/decoders.tar.br", import.meta.url));
  const files = readArchive(archive) as Map<string, Uint8Array>;
  const model = readModel(files.get([...files.keys()].find((path) => path.endsWith("/model.onnx"))!)!);
  const inputs = model.graph.inputs.map((input) =>
    input.name === "input_ids" ? value("input_ids", "int32", ["batch", "sequence"]) : input,
  );
  const nodes = [
    node("Cast", ["input_ids"], ["wide_ids"], { to: 7 }),
    ...model.graph.nodes.map((each) => ({
      ...each,
      inputs: each.inputs.map((name) => (name === "input_ids" ? "wide_ids" : name)),
    })),
  ];
  const bytes = writeModel({ ...model, graph: { ...model.graph, inputs, nodes } });
  const session = await InferenceSession.create(bytes, { backend: "wasm", threads: 1 });
  expect(session.inputMetadata.find(({ name }) => name === "input_ids")?.type).toBe("int32");
  const decoder = new Decoder(session);
  const state = decoder.createState(1, 8);
  for (const wide of [2 ** 32 + 3, 2 ** 31, -(2 ** 31) - 1])
    await expect(decoder.run(state, { tokens: [[1, wide]], positions: [0] })).rejects.toThrow(
      `input "input_ids" is int32, which cannot hold ${wide}`,
    );
  expect(state.lengths).toEqual([0]);
  const logits = await decoder.run(state, { tokens: [[1, 3]], positions: [0] });
  expect(logits.at(0).every(Number.isFinite)).toBe(true);
  await session.release();
});
