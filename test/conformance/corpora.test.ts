// Random cases of single operators, answered by onnxruntime 1.30 and, where it has no kernel, by ONNX's Python reference:
// com.microsoft's operators, and the standard ones over types, shapes and opsets that ONNX's own tests leave out.
// generate/ holds the scripts that made them. A sample runs in the tests, all of them in the soak.
import { describe, expect, test } from "vitest";
import { runCase } from "../../tools/conformance/case.js";
import { InferenceSession } from "../../src/entry/node.js";
import { archivedCases } from "../support/archived-cases.js";
import { soak } from "../support/soak.js";

/** Cases that test nothing, and why: they must fail until their archive is made anew. */
const untested: Readonly<Record<string, { readonly why: string; readonly reason: RegExp }>> = {
  test_trilu_random_014: { why: "its archive holds no output for it", reason: /output_0\.pb is missing/ },
};

const every = soak ? 1 : 4;

for (const archive of ["onnxruntime-contrib", "onnxruntime-clients", "onnxruntime-decoders", "random-operators"]) {
  describe(`${archive}, every ${every === 1 ? "" : `${every}. `}case`, () => {
    const byOperator = new Map<string, ReturnType<typeof archivedCases>>();
    archivedCases(new URL(`${archive}.tar.br`, import.meta.url)).forEach((files, index) => {
      if (index % every !== 0) return;
      const operator = files.name.replace(/^test_/, "").replace(/_random_\d+$/, "");
      const list = byOperator.get(operator) ?? [];
      byOperator.set(operator, list);
      list.push(files);
    });
    for (const [operator, list] of byOperator) {
      test(`${operator}: ${list.length} cases`, async () => {
        for (const files of list) {
          for (const backend of ["reference", "wasm"] as const) {
            const result = await runCase(files, (model) => InferenceSession.create(model, { backend, threads: 2 }));
            const exception = untested[files.name];
            if (exception === undefined)
              expect({ ...result, backend }).toEqual({ name: files.name, status: "passed", backend });
            else
              expect(result, exception.why).toMatchObject({
                status: "failed",
                reason: expect.stringMatching(exception.reason) as string,
              });
          }
        }
      });
    }
  });
}
