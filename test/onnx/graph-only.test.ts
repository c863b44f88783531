// The graph without its weights: what is left is the model as it would be read whole, and the bytes of large weights are never asked for.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mostElements, readGraphOnly } from "../../src/onnx/graph-only.js";
import type { ModelTensor } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { elementCount } from "../../src/tensor/view.js";
import { embedded } from "../generate/support.js";
import { exportedBytes, exportedDecoders } from "../support/exported-decoders.js";

/** A file in memory that counts what is read of it. */
function counted(bytes: Uint8Array): { file: Parameters<typeof readGraphOnly>[0]; read: () => number } {
  let sum = 0;
  return {
    file: {
      size: bytes.length,
      read: async (offset, target) => {
        sum += target.length;
        if (offset + target.length > bytes.length) throw new Error("behind the end");
        target.set(bytes.subarray(offset, offset + target.length));
      },
      close: async () => {},
    },
    read: () => sum,
  };
}

const described = ({ name, type, dims }: ModelTensor): string => `${name} ${type}[${dims.join(",")}]`;

test.each(exportedDecoders)("%s: the same graph", async (name) => {
  const bytes = exportedBytes(name);
  const { file } = counted(bytes);
  const [graph, whole] = [await readGraphOnly(file, "x"), readModel(bytes.slice())];
  expect(graph.graph.nodes.map((node) => [node.opType, node.inputs, node.outputs])).toEqual(
    whole.graph.nodes.map((node) => [node.opType, node.inputs, node.outputs]),
  );
  expect(graph.graph.initializers.map(described)).toEqual(whole.graph.initializers.map(described));
  for (const [at, tensor] of whole.graph.initializers.entries())
    if (elementCount(tensor.dims) <= mostElements)
      expect(graph.graph.initializers[at].data, tensor.name).toEqual(tensor.data);
});

test("weights are passed over, and not read", async () => {
  const bytes = readFileSync(join(embedded, "onnx/model.onnx"));
  const { file, read } = counted(bytes);
  const { graph } = await readGraphOnly(file, "x");
  expect(read()).toBeLessThan(bytes.length / 5);
  expect(graph.initializers.some(({ external }) => external?.location === "left-out")).toBe(true);
});

test("what is no model is named for what it is", async () => {
  const refusal = (bytes: Uint8Array): Promise<unknown> => readGraphOnly(counted(bytes).file, "x.onnx");
  await expect(refusal(new TextEncoder().encode("GGUF and more of it, and more"))).rejects.toThrow(/is a GGUF file/);
  await expect(refusal(new TextEncoder().encode("<!doctype html><p>log in"))).rejects.toThrow(/is an HTML page/);
  await expect(refusal(readFileSync(join(embedded, "onnx/model.onnx")).subarray(0, 5000))).rejects.toThrow(
    /x\.onnx: .*(cut|longer|read)/,
  );
});
