// A decoder of any number of layers whose layers all have the weights of one: large on disk and in memory, cheap to make.
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type DecoderForm, type DecoderSizes, generatedDecoder } from "../../tools/demo/decoder.js";
import type { Model } from "../../src/onnx/model.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { writeModel } from "../../src/onnx/write.js";

/** The decoder, with the tensors of its layers sharing their bytes. */
export function repeatedDecoder(sizes: DecoderSizes, form: DecoderForm): Model {
  const model = generatedDecoder({ ...sizes, layers: 2 }, form);
  const { graph } = model;
  const last = sizes.layers - 1;
  const isSecond = (name: string): boolean => /^(layer|past|present)\.1\./.test(name);
  /** A name of the second layer as one of layer `at`, and of the first as one of the layer before. */
  const rename = (name: string, at: number): string =>
    name.replace(/^(layer|past|present)\.([01])\./, (_, kind: string, layer: string) => {
      return `${kind}.${at - 1 + Number(layer)}.`;
    });
  const copies = <T extends { readonly name: string }>(items: readonly T[], copy: (item: T, at: number) => T): T[] => {
    const first = items.findIndex(({ name }) => isSecond(name));
    const second = items.filter(({ name }) => isSecond(name));
    const repeated = Array.from({ length: last }, (_, index) => second.map((item) => copy(item, index + 1))).flat();
    const rest = items.filter(({ name }) => !isSecond(name));
    return [...rest.slice(0, first), ...repeated, ...rest.slice(first)];
  };
  const named = <T extends { readonly name: string }>(item: T, at: number): T => ({
    ...item,
    name: rename(item.name, at),
  });
  const nodes = copies(graph.nodes, (node, at) => ({
    ...named(node, at),
    inputs: node.inputs.map((name) => name && rename(name, at)),
    outputs: node.outputs.map((name) => name && rename(name, at)),
  })).map((node) => ({
    ...node,
    // What follows the layers reads the last of them.
    inputs: isLayer(node.name)
      ? node.inputs
      : node.inputs.map((name) => name && rename(name, isSecond(name) ? last : 1)),
  }));
  return {
    ...model,
    graph: {
      ...graph,
      nodes,
      initializers: copies(graph.initializers, named),
      inputs: copies(graph.inputs, named),
      outputs: copies(graph.outputs, named),
    },
  };
}

const isLayer = (name: string): boolean => /^(layer|past|present)\.\d+\./.test(name);

/** Writes the decoder and its weights into a folder; the model's path and the bytes of the weights. */
export function writeRepeatedDecoder(
  folder: string,
  sizes: DecoderSizes,
  form: DecoderForm,
): { readonly path: string; readonly weightBytes: number } {
  const { model, pieces } = moveToExternalData(repeatedDecoder(sizes, form), { location: "weights.bin" });
  const path = join(folder, "model.onnx");
  let weightBytes = 0;
  const file = openSync(join(folder, "weights.bin"), "w");
  for (const piece of pieces) for (let at = 0; at < piece.length;) at += writeSync(file, piece, at);
  for (const piece of pieces) weightBytes += piece.length;
  closeSync(file);
  const header = openSync(path, "w");
  writeSync(header, writeModel(model));
  closeSync(header);
  return { path, weightBytes };
}
