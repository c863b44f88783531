// docs/in-place.md: every graph has the verdict that the page tells, gives the results of inPlace: "never", and is drawn as committed.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import type { State } from "../../src/session/state.js";
import { cloneView } from "../../src/tensor/copy.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { compareBits } from "../support/compare.js";
import { type Example, examples, listingOf } from "./examples.js";
import { pictures } from "./picture.js";

const page = readFileSync(new URL("../../docs/in-place.md", import.meta.url), "utf8");

/** Two tokens into a cache of eight rows. */
const sizes: Readonly<Record<string, number>> = { batch: 1, capacity: 8, tokens: 2, past: 0, past_length: 0 };

const load = (example: Example, inPlace: "prefer" | "require" | "never"): Promise<InferenceSession> =>
  InferenceSession.create(writeModel(example.model), { inPlace, backend: "reference" });

/** Feeds for one run: random rows; indices that move on. */
function feedsFor(session: InferenceSession, state: State | undefined, run: number): Record<string, Tensor> {
  const random = seededRandom(run);
  const tokens = session.inputMetadata.some(({ shape }) => shape.includes("tokens")) ? sizes["tokens"] : 1;
  const feeds: Record<string, Tensor> = {};
  for (const { name, type, shape } of session.inputMetadata) {
    if (state?.names.includes(name)) continue;
    const dims = shape.map((dim) => (typeof dim === "number" ? dim : sizes[dim]));
    const count = dims.reduce((product, dim) => product * dim, 1);
    if (type === "int64") {
      const value = tokens * (name === "nonpad_kv_seqlen" ? run + 1 : run);
      feeds[name] = new Tensor(
        "int64",
        BigInt64Array.from({ length: count }, (_, at) => BigInt(value + at)),
        dims,
      );
    } else
      feeds[name] = new Tensor(
        "float32",
        Float32Array.from({ length: count }, () => random() - 0.5),
        dims,
      );
  }
  return feeds;
}

/** Outputs and caches of three runs. */
async function runThrice(example: Example, inPlace: "prefer" | "never"): Promise<{ outputs: Tensor[]; moved: number }> {
  const session = await load(example, inPlace);
  const { states } = session.explain({ json: true });
  const state =
    states.length === 0 ? undefined : session.createState({ dims: { batch: 1, capacity: sizes["capacity"] } });
  const outputs: Tensor[] = [];
  for (let run = 0; run < 3; run++) {
    const results = await session.run(feedsFor(session, state, run), state === undefined ? {} : { state });
    outputs.push(...Object.values(results));
    for (const { input, shape } of states) {
      // What lies beyond the length of a cache that grows is nobody's.
      const axis = shape.findIndex((dim) => dim === "past" || dim === "past_length");
      const view = state!.get(input).toView();
      outputs.push(Tensor.fromView(cloneView(axis < 0 ? view : view.slice(axis, 0, state!.lengths[0]))));
    }
  }
  return { outputs, moved: state?.statistics.movedBytes ?? 0 };
}

for (const example of examples) {
  const { name, title, verdicts } = example;
  describe(name, () => {
    test("has the verdict that the page tells", async () => {
      const session = await load(example, "prefer");
      const { caches } = session.explain({ json: true });
      expect(new Set(caches.map(({ node }) => node))).toEqual(new Set(Object.keys(verdicts)));
      for (const { node, inPlace, reason } of caches) expect({ inPlace, reason }).toEqual(verdicts[node]);
      for (const { inPlace, reason } of Object.values(verdicts)) {
        const section = sectionOf(name);
        if (!Object.values(verdicts).some((other) => !other.inPlace) || !inPlace)
          expect(section).toContain(`> ${inPlace ? "in place" : "copied"}: ${reason}\n`);
      }
    });

    test("is listed and shown on the page", () => {
      expect(page).toContain(`\`\`\`\n${listingOf(example).join("\n")}\n\`\`\`\n`);
      expect(page).toContain(`![${title}](img/${name}.svg)`);
    });

    test('gives the results of inPlace: "never"', async () => {
      const [shared, separate] = [await runThrice(example, "prefer"), await runThrice(example, "never")];
      expect(shared.outputs.length).toBe(separate.outputs.length);
      expect(shared.outputs.length).toBeGreaterThan(0);
      shared.outputs.forEach((tensor, at) =>
        expect(compareBits(tensor.toView(), separate.outputs[at].toView()), `output ${at}`).toBe(""),
      );
      if (Object.values(verdicts).every(({ inPlace }) => inPlace)) expect(shared.moved).toBe(0);
    });
  });
}

/** The part of the page around an example's picture, up to the next one. */
function sectionOf(name: string): string {
  const after = page.slice(page.indexOf(`](img/${name}.svg)`));
  const next = after.indexOf("![", 2);
  return next < 0 ? after : after.slice(0, next);
}

test("the pictures are what scripts/draw-docs.mjs draws", () => {
  for (const [file, svg] of pictures())
    expect(
      readFileSync(new URL(`../../docs/img/${file}`, import.meta.url), "utf8") === svg,
      `docs/img/${file}: run node scripts/draw-docs.mjs`,
    ).toBe(true);
});

test("the page shows no picture that is not drawn", () => {
  const shown = [...page.matchAll(/\]\(img\/(.+?)\)/g)].map(([, file]) => file);
  expect(new Set(shown)).toEqual(new Set(pictures().keys()));
});
