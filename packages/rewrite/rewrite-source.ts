/** `rewrite` from what a caller hands in: the bytes of a model, its path or its URL. Weights in other files stay there. */
import { optionsOf } from "#insitu/base/arguments.js";
import type { Files } from "#insitu/base/platform.js";
import { loadExternalData } from "#insitu/onnx/external.js";
import { openModel } from "#insitu/onnx/load.js";
import { bytesOf, checkLoadOptions, loadOptionNames, type LoadOptions } from "#insitu/onnx/load-options.js";
import type { Model } from "#insitu/onnx/model.js";
import { readModel } from "#insitu/onnx/read.js";
import { withStandIns } from "#insitu/onnx/stand-ins.js";
import { writeModel } from "#insitu/onnx/write.js";
import { withOperators } from "#insitu/ops/late.js";
import { mostRead } from "./elements.js";
import type { RewriteReport } from "./report.js";
import { rewrite, type RewriteOptions, rewriteOptionNames } from "./rewrite.js";

/** A rewritten model as bytes, and what was done. */
export interface RewrittenBytes {
  /** The rewritten model, as bytes of an ONNX file. */
  readonly model: Uint8Array;
  /** What was done. */
  readonly report: RewriteReport;
}

/** The model at a path, or of bytes, ready to be rewritten: what can decide a shape or a mask is loaded, large weights are not. */
export async function openForRewriting(
  source: string | URL | Uint8Array | ArrayBufferLike,
  platform: Files,
  options: LoadOptions = {},
): Promise<Model> {
  checkLoadOptions(options);
  const model =
    typeof source === "string" || source instanceof URL
      ? await openModel(String(source), platform)
      : readModel(bytesOf(source));
  return loadExternalData(withStandIns(await withOperators(model), mostRead), platform, options);
}

/** Rewrites a decoder whose caches grow into one whose caches are written in place; throws where it is not understood. */
export async function rewriteSource(
  source: string | URL | Uint8Array | ArrayBufferLike,
  platform: Files,
  given?: RewriteOptions & LoadOptions,
): Promise<RewrittenBytes> {
  const options = optionsOf("the options of rewrite", given, { ...rewriteOptionNames, ...loadOptionNames });
  const { model, report } = rewrite(await openForRewriting(source, platform, options), options);
  return { model: writeModel(model), report };
}
