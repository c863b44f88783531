// The README's TypeScript runs: each block on its own, against the built package, beside the models it names.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { transformWithOxc } from "vite";
import { generatedDecoder } from "../../src/demo/decoder.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const blocks = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);
const entry = new URL("../../dist/index.node.js", import.meta.url).href;
const folder = mkdtempSync(join(tmpdir(), "insitu-readme-"));
afterAll(() => rmSync(folder, { recursive: true }));

const plain = buildModel({
  opset: 21,
  inputs: [value("x", "float32", ["n", 3])],
  outputs: [value("y", "float32")],
  nodes: [node("Relu", ["x"], ["y"])],
});
writeFileSync(join(folder, "model.onnx"), writeModel(plain));
writeFileSync(join(folder, "decoder.onnx"), writeModel(generatedDecoder()));

test("there are blocks to run", () => expect(blocks.length).toBeGreaterThanOrEqual(3));

for (const [index, block] of blocks.entries()) {
  test(`block ${index + 1}: ${block.trim().split("\n")[0]}`, async () => {
    const names = ["InferenceSession", "Tensor", "ops"].filter(
      (name) => !new RegExp(`import [^;]*\\b${name}\\b`).test(block),
    );
    const { code } = await transformWithOxc(`import { ${names.join(", ")} } from "insitu";\n${block}`, "block.ts", {
      lang: "ts",
      typescript: { onlyRemoveTypeImports: true },
    });
    const path = join(folder, `block${index}.mjs`);
    writeFileSync(path, code.replaceAll('"insitu"', JSON.stringify(entry)));
    execFileSync(process.execPath, [path], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  });
}
