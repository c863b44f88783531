/** What is wrong with a model's file, told with its path, the node and a way out, where loading stopped at something in it. */
import { type ErrorCode, InsituError } from "../base/error.js";
import type { Files } from "../base/platform.js";
import { buildGraph } from "../graph/build.js";
import { inferGraph } from "../graph/infer.js";
import { loadExternalData } from "../onnx/external.js";
import { mostElements, readGraphOnly } from "../onnx/graph-only.js";
import type { Model } from "../onnx/model.js";
import { withStandIns } from "../onnx/stand-ins.js";
import { operators } from "../ops/index.js";
import { withOperators } from "../ops/late.js";
import { refuseMissingOperators } from "./missing-operators.js";

/** What errors about a file can be; the others are about memory, devices or what a caller asked for. */
const ofFiles: ReadonlySet<ErrorCode> = new Set([
  "invalid-model",
  "invalid-graph",
  "unsupported-operator",
  "unsupported-opset",
  "unsupported-type",
  "external-data",
  "type-mismatch",
  "shape-mismatch",
  "invalid-argument",
]);

/** What a file's graph breaks of its operators' rules, before any weight is needed; undefined where it breaks none. */
export function brokenRule(model: Model, path: string): InsituError | undefined {
  try {
    inferGraph(buildGraph(model, operators));
    return undefined;
  } catch (error) {
    if (!(error instanceof InsituError) || !ofFiles.has(error.code)) throw error;
    const about = error.message.includes(path) ? error.message : `${path}: ${error.message}`;
    return new InsituError(
      error.code,
      `${about}; the file is damaged or was exported wrong: fetch or export it again`,
      {
        cause: error,
      },
    );
  }
}

/** The error to tell where loading the file at `path` failed: what no weights would mend comes first. Reads the graph, and none of the large weights. */
export async function faultOf(error: unknown, path: string, files: Files): Promise<unknown> {
  const file = await files.open(path);
  try {
    const model = await withOperators(await readGraphOnly(file, path));
    refuseMissingOperators(model, path);
    if (!(error instanceof InsituError) || !ofFiles.has(error.code)) return error;
    return (await brokenGraph(model, path, files)) ?? withPath(error, path);
  } finally {
    await file.close();
  }
}

/** What breaks a rule in a graph without its large weights; undefined as well where small ones, which may decide shapes, cannot be had. */
async function brokenGraph(model: Model, path: string, files: Files): Promise<InsituError | undefined> {
  let whole: Model;
  try {
    whole = await loadExternalData(withStandIns(model, mostElements), files);
  } catch {
    return undefined;
  }
  return brokenRule(whole, path);
}

/** The error, with the path of the file that it is about. */
export function withPath(error: InsituError, path: string): InsituError {
  // What names a file already is about that one.
  const isTold = error.message.includes(path) || /\.(json|jinja|onnx)\b/.test(error.message);
  if (!ofFiles.has(error.code) || error.code === "invalid-argument" || isTold) return error;
  return new InsituError(error.code, `${path}: ${error.message}`, { cause: error });
}
