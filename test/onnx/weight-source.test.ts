// Weights that stay in their files: which ones, where they are read from when they are wanted, and what is said of files that changed meanwhile.
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { ReadableFile } from "../../src/base/platform.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { loadModel } from "../../src/onnx/load.js";
import { type Model, type ModelTensor, tensorView } from "../../src/onnx/model.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { writeModel } from "../../src/onnx/write.js";
import { DeferredWeights } from "../../src/onnx/weight-source.js";
import { nodePlatform } from "../../src/platform/node.js";
import { absentView, DeferredElements, holding } from "../../src/tensor/deferred.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-source-"));
afterAll(() => rmSync(folder, { recursive: true }));

const count = 2 ** 20;
const numbers = Float32Array.from({ length: count }, (_, at) => at);
const bytes = Uint8Array.from({ length: 2 ** 16 }, (_, at) => at % 251);

const model = buildModel({
  opset: 24,
  inputs: [value("x", "float32", [1]), value("fed", "float32", [count])],
  outputs: [value("y")],
  nodes: [node("Add", ["x", "large"], ["y"])],
  initializers: [
    initializer("large", "float32", numbers, [1024, 1024]),
    initializer("fed", "float32", numbers, [count]),
    initializer("levels", "uint8", bytes, [bytes.length]),
    initializer("indices", "int64", new BigInt64Array(2 ** 16), [2 ** 16]),
    initializer("small", "float32", new Float32Array(8), [8]),
  ],
});

/** Writes the model into one file, or with its weights beside it. */
function write(beside: boolean): string {
  const path = join(folder, "model.onnx");
  if (!beside) {
    writeFileSync(path, writeModel(model));
    return path;
  }
  const { model: moved, pieces } = moveToExternalData(model, { location: "weights.bin" });
  writeFileSync(join(folder, "weights.bin"), Buffer.concat(pieces));
  writeFileSync(path, writeModel(moved));
  return path;
}

/** What a weight that was left in its file is read from. */
function deferredOf(model: Model, name: string): DeferredElements {
  const { deferred } = find(model, name);
  if (!(deferred instanceof DeferredElements)) throw new Error(`${name} is not deferred`);
  return deferred;
}

const find = ({ graph }: Model, name: string): ModelTensor => graph.initializers.find((each) => each.name === name)!;

test.each([false, true])("large weights stay where they are (beside the model: %s)", async (beside) => {
  const path = write(beside);
  let counted = 0;
  const reports: number[] = [];
  const deferring = new DeferredWeights((more) => (counted += more));
  const onProgress = (done: number): number => reports.push(done);
  const loaded = await loadModel(path, nodePlatform, { onProgress }, undefined, deferring);
  const names = loaded.graph.initializers.filter(({ deferred }) => deferred !== undefined).map(({ name }) => name);
  expect(names).toEqual(["large", "levels"]);
  expect(counted).toBe(4 * count + bytes.length);
  for (const name of ["fed", "indices", "small"]) expect(find(loaded, name).data).toEqual(find(model, name).data);
  // Whoever looks at what is missing is told, and finds it the second time; a copy has it too.
  const large = find(loaded, "large");
  expect(absentView(tensorView(large))).toBeDefined();
  expect(await holding(() => large.data)).toEqual(numbers);
  expect(tensorView({ ...large, name: "copy" }).data).toEqual(numbers);
  // In pieces, after the files were closed.
  await deferring.close();
  const piece = new Uint8Array(100);
  await deferredOf(loaded, "levels").read(1000, piece);
  expect(piece).toEqual(bytes.subarray(1000, 1100));
  await deferring.close();
  expect(reports).toEqual(reports.toSorted((a, b) => a - b));
});

test.each([false, true])("a file that has changed is not read (beside the model: %s)", async (beside) => {
  const path = write(beside);
  const deferring = new DeferredWeights(() => undefined);
  const loaded = await loadModel(path, nodePlatform, {}, undefined, deferring);
  await deferring.close();
  utimesSync(beside ? join(folder, "weights.bin") : path, 1, 1);
  await expect(deferredOf(loaded, "large").load()).rejects.toThrow(
    /tensor "large": .* cannot be read: the file .* has changed since the model was loaded; load the model again/,
  );
});

test("what is read of a file after the load closes it again, however often and by how many", async () => {
  let open = 0;
  const platform = {
    ...nodePlatform,
    openBeside: async (...where: readonly [string, string]): Promise<ReadableFile> => {
      const file = await nodePlatform.openBeside(...where);
      open++;
      const close = (): Promise<void> => file.close().finally(() => open--);
      return { size: file.size, version: file.version!, isNear: true, read: (...asked) => file.read(...asked), close };
    },
  };
  const deferring = new DeferredWeights(() => undefined);
  const levels = deferredOf(await loadModel(write(true), platform, {}, undefined, deferring), "levels");
  await deferring.close();
  expect(open).toBe(0);
  for (const starts of [[7], [1, 2, 3, 4], [9]]) {
    const read = starts.map(async (start) => {
      const piece = new Uint8Array(10);
      await levels.read(start, piece);
      return piece;
    });
    expect(await Promise.all(read)).toEqual(starts.map((start) => bytes.slice(start, start + 10)));
    await expect.poll(() => open).toBe(0);
  }
});

test("a limit on memory counts them", async () => {
  const path = write(true);
  const deferring = new DeferredWeights(() => {
    throw new Error("too many");
  });
  await expect(loadModel(path, nodePlatform, {}, undefined, deferring)).rejects.toThrow("too many");
  await deferring.close();
});
