// The bundle for pages keeps operators apart that few decoders call: they come with the first model that calls one, with their kernels.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { node } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { constant, modelOf } from "../passes/support.js";

const folder = new URL("../../dist/browser/", import.meta.url);
const bundle = (await import(new URL("insitu.js", folder).href)) as {
  readonly InferenceSession: typeof InferenceSession;
  readonly Tensor: typeof Tensor;
};

const one = (operator: string, attributes: Parameters<typeof node>[3] = {}, weights: readonly string[] = []) =>
  writeModel(
    modelOf({
      inputs: { x: [1, 1, 3, 3] },
      outputs: ["y"],
      nodes: [node(operator, ["x", ...weights], ["y"], attributes)],
      constants: [constant("w", [1, 2, 3, 4], [1, 1, 2, 2])],
    }),
  );

const numbers = Float32Array.from([4, 1, 2, 3, 5, 1, 2, 2, 6]);

async function run(library: typeof bundle, model: Uint8Array): Promise<number[]> {
  const session = await library.InferenceSession.create(model, { threads: 1 });
  const { y } = await session.run({ x: new library.Tensor("float32", numbers, [1, 1, 3, 3]) });
  const values = Array.from(y.data as Float32Array);
  await session.release();
  return values;
}

test("models that call late operators compute as they do elsewhere", async () => {
  for (const model of [one("Det"), one("Conv", {}, ["w"]), one("Hardmax"), one("Einsum", { equation: "abcd->abdc" })])
    expect(await run(bundle, model)).toEqual(await run({ InferenceSession, Tensor }, model));
});

test("an operator that nobody has is told as before", async () => {
  await expect(bundle.InferenceSession.create(one("Dett"), { threads: 1 })).rejects.toThrow(
    /operator Dett of domain ai\.onnx, opset 18, is not supported; the nearest supported one is Det/,
  );
});

test("they are one chunk, which nothing imports at once", () => {
  const names = readdirSync(fileURLToPath(folder));
  const [late, ...more] = names.filter((name) => name.startsWith("late-operators-"));
  expect(more).toEqual([]);
  for (const name of names.filter((each) => each.endsWith(".js")))
    expect(readFileSync(new URL(name, folder), "utf8")).not.toMatch(
      new RegExp(`from"\\./${late}"|import"\\./${late}"`),
    );
});
