// Cases in ONNX's backend-test layout, read from a test-data archive.
import { fileURLToPath } from "node:url";
import type { CaseFiles } from "../../tools/conformance/case.js";
import { readArchive } from "../../scripts/archive.mjs";

/** The cases of an archive, in order of name. */
export function archivedCases(archive: URL): CaseFiles[] {
  const files = readArchive(fileURLToPath(archive)) as Map<string, Uint8Array>;
  const names = [...files.keys()]
    .filter((path) => path.endsWith("/model.onnx"))
    .map((path) => path.slice(0, -"/model.onnx".length));
  const folders = new Map(
    names.map((name) => [
      name,
      { model: files.get(`${name}/model.onnx`)!, sets: [] as { inputs: Uint8Array[]; outputs: Uint8Array[] }[] },
    ]),
  );
  for (const [path, bytes] of files) {
    const match = /^(.*)\/test_data_set_(\d+)\/(input|output)_(\d+)\.pb$/.exec(path);
    if (match === null) continue;
    const [, name, set, kind, index] = match;
    const { sets } = folders.get(name)!;
    const data = (sets[Number(set)] ??= { inputs: [], outputs: [] });
    data[kind === "input" ? "inputs" : "outputs"][Number(index)] = bytes;
  }
  return names.sort().map((name) => {
    const meta = files.get(`${name}/meta.json`);
    const { rtol, atol } =
      meta === undefined ? {} : (JSON.parse(Buffer.from(meta).toString()) as { rtol?: number; atol?: number });
    return {
      name,
      model: folders.get(name)!.model,
      tolerance: { ...(rtol === undefined ? {} : { rtol }), ...(atol === undefined ? {} : { atol }) },
      sets: folders.get(name)!.sets,
    };
  });
}
