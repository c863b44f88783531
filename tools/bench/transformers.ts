/**
 * Groups in which transformers.js itself makes text, on insitu and on onnxruntime-node, each in a process of its own: the files are the same,
 * and which runtime computes is all that differs. Where transformers.js is not installed there are none.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { checkout } from "../checkout.js";
import { writeModel } from "#insitu/onnx/write.js";
import { embeddedModel } from "#insitu/platform/embedded-model.js";
import { clientContestant } from "./client-contestant.js";
import { embeddedClientForm, embeddedSizes } from "./client-forms.js";
import type { PastPresentForm } from "./embedded-forms.js";
import { differentBits, type Group, likeTheFirst, type Result, type Setting } from "./load.js";
import type { TransformersWork } from "./transformers-process.js";
import { once } from "./work.js";

const script = join(checkout, "dist/tools/bench/transformers-process.js");

/** transformers.js where it is installed beside onnxruntime-node. */
function findTransformers(): { readonly entry: string; readonly version: string } | undefined {
  for (const folder of [join(checkout, "peers"), process.cwd()])
    try {
      const found = createRequire(join(folder, "package.json")).resolve("@huggingface/transformers");
      const manifest = readFileSync(join(dirname(found), "..", "package.json"), "utf8");
      const { version } = JSON.parse(manifest) as { readonly version: string };
      return { entry: join(dirname(found), "transformers.node.mjs"), version };
    } catch {
      // The next folder may have it.
    }
  return undefined;
}

/** Writes the embedded model as transformers.js finds it, in one of its forms; no token ends a text. */
function writeFolder(folder: string, form: PastPresentForm, accuracyLevel: 0 | 4): void {
  mkdirSync(join(folder, "onnx"), { recursive: true });
  for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json"])
    cpSync(join(embeddedModel(), file), join(folder, file));
  writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ pad_token_id: 0, eos_token_id: null }));
  writeFileSync(join(folder, "onnx/model.onnx"), writeModel(embeddedClientForm(form, accuracyLevel)));
}

/** The first token alone. */
const beginningOf = (tokens: Result): Result => (tokens as Float32Array).subarray(0, 1);

/** The groups, for these forms of the embedded model. */
export function transformersGroups(
  { quick, peers, threads }: Setting,
  forms: readonly { readonly form: PastPresentForm; readonly accuracyLevel: 0 | 4 }[],
): Group[] {
  const found = findTransformers();
  if (found === undefined || !peers.some(({ name }) => name === "onnxruntime-node")) return [];
  const { entry, version } = found;
  const { vocabulary, positions } = embeddedSizes();
  const context = quick ? 12 : 400;
  return forms.map(({ form, accuracyLevel }) => {
    let folder: string | undefined;
    const models = once(() => {
      folder = mkdtempSync(join(tmpdir(), "insitu-transformers-"));
      writeFolder(join(folder, "model"), form, accuracyLevel);
      return folder;
    });
    const contestant = (runtime: string, standIn: string | undefined): Group["contestants"][number] =>
      clientContestant({
        name: `transformers.js on ${runtime}`,
        runtime,
        script,
        flags: ["--expose-gc"],
        work: (): TransformersWork => ({
          entry,
          standIn,
          folder: models(),
          model: "model",
          threads,
          context,
          most: positions,
          vocabulary,
        }),
        tokens: quick ? 2 : 96,
      });
    return {
      name: `transformers.js ${version} generates: the embedded model, ${form}, accuracy level ${accuracyLevel}, from context ${context} on`,
      contestants: [
        contestant("insitu", join(checkout, "dist/lib/onnxruntime.node.js")),
        contestant("onnxruntime-node", undefined),
      ],
      // Where activations are rounded, by each runtime in its own way, texts part sooner or later: their beginnings are the same.
      check: likeTheFirst((tokens, expected) =>
        accuracyLevel === 0
          ? differentBits(tokens, expected)
          : differentBits(beginningOf(tokens), beginningOf(expected)),
      ),
      stop: async () => {
        if (folder !== undefined) rmSync(folder, { recursive: true });
      },
    };
  });
}
