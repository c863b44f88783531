/**
 * A model opened to be looked at, not run: weights in other files are described, not read, so that a model larger than memory can
 * be inspected. What can decide a shape is read: small tensors, and whole numbers of 32 and 64 bits.
 */
import { join } from "node:path";
import { modelPaths } from "#insitu/base/model-files.js";
import { loadExternalData } from "#insitu/onnx/external.js";
import { openModel } from "#insitu/onnx/load.js";
import type { Model } from "#insitu/onnx/model.js";
import { withStandIns } from "#insitu/onnx/stand-ins.js";
import { withPlainWeights } from "#insitu/session/plain-weights.js";
import { nodePlatform } from "#insitu/platform/node.js";

/** Elements up to which inference looks into a constant. */
const mostRead = 2 ** 16;

/** The ONNX file of a folder, as `generate --model` would take it; what is no folder as it is. */
export async function onnxFileAt(path: string, variant: string | boolean | undefined): Promise<string> {
  if ((await nodePlatform.kindOf?.(path)) !== "folder") return path;
  for (const name of modelPaths(typeof variant === "string" ? variant : undefined))
    if (await nodePlatform.exists(join(path, name))) return join(path, name);
  return path;
}

/** The model at a path, with stand-ins for its large external weights. */
export async function openForInspection(path: string): Promise<Model> {
  const model = withStandIns(await openModel(path, nodePlatform), mostRead);
  return withPlainWeights(await loadExternalData(model, nodePlatform), "stand-ins");
}
