// onnxruntime's answers to a sample of the near misses, for where it is not installed; the sample is what is listed. INSITU_ANSWERS=write makes the file anew.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync, brotliDecompressSync } from "node:zlib";
import { writeModel } from "../../../src/onnx/write.js";
import { View } from "../../../src/tensor/view.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import type { Drawn } from "./draft.js";
import type { Results } from "./oracle.js";

/** One answer: what graph and feeds it is for, and the results; none where onnxruntime does not know the operators. */
interface Answer {
  readonly of: string;
  readonly results?: Readonly<Record<string, readonly [type: ElementType, dims: readonly number[], data: string]>>;
}

const file = new URL("./answers.json.br", import.meta.url);

const bytesOf = ({ data }: Tensor): Buffer => {
  const { buffer, byteOffset, byteLength } = data as Float32Array;
  return Buffer.from(buffer, byteOffset, byteLength);
};

/** A few letters that are others where the model or its feeds are. */
export function markOf({ model, feeds }: Drawn): string {
  const hash = createHash("sha256").update(writeModel(model));
  for (const [name, tensor] of Object.entries(feeds))
    hash.update(`${name} ${String(tensor.dims)}`).update(bytesOf(tensor));
  return hash.digest("hex").slice(0, 12);
}

/** Answers by the name of the near miss. */
export type Answers = Readonly<Record<string, Answer>>;

export const readAnswers = (): Answers => JSON.parse(brotliDecompressSync(readFileSync(file)).toString()) as Answers;

/** An answer to be written. */
export const answerOf = (drawn: Drawn, results: Results | undefined): Answer => ({
  of: markOf(drawn),
  ...(results === undefined
    ? {}
    : {
        results: Object.fromEntries(
          Object.entries(results).map(([name, tensor]) => [
            name,
            [tensor.type, tensor.dims, bytesOf(tensor).toString("base64")] as const,
          ]),
        ),
      }),
});

export const writeAnswers = (answers: Answers): void =>
  writeFileSync(file, brotliCompressSync(JSON.stringify(answers)));

/** The results that an answer holds. */
export function resultsIn({ results }: Answer): Results | undefined {
  return (
    results &&
    Object.fromEntries(
      Object.entries(results).map(([name, [type, dims, text]]) => {
        const view = View.allocate(type, dims);
        const { buffer, byteOffset, byteLength } = view.data as Float32Array;
        new Uint8Array(buffer, byteOffset, byteLength).set(Buffer.from(text, "base64"));
        return [name, Tensor.fromView(view)];
      }),
    )
  );
}
