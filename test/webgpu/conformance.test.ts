// ONNX's cases for caches and attention on a GPU, and how many of them stay on it. A sample in the tests, all of them in the soak.
import { describe, expect, test } from "vitest";
import { runCase } from "../../tools/conformance/case.js";
import { InferenceSession } from "../../src/entry/node.js";
import { archivedCases } from "../support/archived-cases.js";
import { noWebgpu } from "../support/backends.js";
import { soak } from "../support/soak.js";

const family =
  /attention|tensorscatter|tensor_scatter|linear_attention|causal_conv|flexattention|flex_attention|rotary|rms_norm|swiglu/;
const cases = archivedCases(new URL("../conformance/onnx-node-1.23.1.tar.br", import.meta.url))
  .filter(({ name }) => family.test(name))
  .filter((_, at) => soak || at % 24 === 0);

/** What runs on the host, as `docs/webgpu.md` lists it. One that no case needs any more fails the soak. */
const onTheHost = [
  /^Scan: it has no kernel$/,
  /^FlexAttention: (scores pass through a subgraph of the model|there is no kernel for float64)$/,
  /^(Cast|Softmax): float64 is no type of shaders$/,
  /^Attention: .*the softmax is to be computed in float64$/,
];

/** Why steps of the session's last run were computed on the host, though an operand or result lay on the device. */
function reasonsOf(session: InferenceSession): string[] {
  const { steps } = session.explain({ json: true });
  return steps.flatMap(({ op, runs, reasons = [] }) =>
    runs === "reference" && !reasons.includes("its operands are on the host") ? [`${op}: ${reasons.join(", ")}`] : [],
  );
}

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  test("the KV family passes", async () => {
    const problems: string[] = [];
    const onHost = new Map<string, string[]>();
    for (const files of cases) {
      let reasons: string[] = [];
      const result = await runCase(files, async (model) => {
        const session = await InferenceSession.create(model, { backend: "webgpu" });
        const release = session.release.bind(session);
        session.release = () => {
          reasons = reasonsOf(session);
          return release();
        };
        return session;
      });
      if (result.status !== "passed") problems.push(`${files.name}: ${result.reason}`);
      for (const reason of reasons) onHost.set(reason, [...(onHost.get(reason) ?? []), files.name]);
    }
    const kept = new Set([...onHost.values()].flat());
    console.log(`on a GPU: ${cases.length - kept.size} of ${cases.length} cases of the KV family stay on the device`);
    for (const [reason, names] of onHost) console.log(`  on the host: ${reason} (${names.length})`);
    expect(problems).toEqual([]);
    const reasons = [...onHost.keys()];
    expect(reasons.filter((reason) => !onTheHost.some((known) => known.test(reason)))).toEqual([]);
    if (!soak) return;
    expect(onTheHost.filter((known) => !reasons.some((reason) => known.test(reason)))).toEqual([]);
    expect(cases.length).toBeGreaterThanOrEqual(325);
    expect(cases.length - kept.size).toBeGreaterThanOrEqual(0.9 * cases.length);
  });
});
