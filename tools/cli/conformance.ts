/** `insitu conformance`: runs every case in a folder of ONNX's backend-test layout. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { InsituError } from "#insitu/base/error.js";
import { valueText } from "#insitu/base/value-text.js";
import { allowanceOf } from "../conformance/allowances.js";
import { type CaseFiles, type CaseResult, runCase } from "../conformance/case.js";
import type { BackendName } from "#insitu/entry/backends.js";
import type { Command } from "#insitu/cli/command.js";
import { toolSummaries } from "#insitu/cli/tools.js";
import { InferenceSession } from "#insitu/entry/node.js";

/** The folders below `root` that hold a model.onnx, in order. */
function findCases(root: string): string[] {
  const found: string[] = [];
  const visit = (folder: string): void => {
    if (existsSync(join(folder, "model.onnx"))) found.push(folder);
    else
      for (const entry of readdirSync(folder, { withFileTypes: true }))
        if (entry.isDirectory()) visit(join(folder, entry.name));
  };
  if (!statSync(root, { throwIfNoEntry: false })?.isDirectory())
    throw new InsituError("invalid-argument", `"${root}" is no folder`);
  visit(root);
  return found.sort();
}

/** Reads the files of one case. Throws `invalid-argument` for files that cannot be meant. */
export function readCase(folder: string, name: string = basename(folder)): CaseFiles {
  const sets = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^test_data_set_\d+$/.test(entry.name))
    .map((entry) => entry.name)
    .sort((a, b) => Number(a.slice(14)) - Number(b.slice(14)))
    .map((entry) => readSet(join(folder, entry)));
  return { name, model: join(folder, "model.onnx"), tolerance: readTolerance(join(folder, "meta.json")), sets };
}

/** The highest number that a file of a data set may have. */
const mostFiles = 4096;

function readSet(folder: string): CaseFiles["sets"][number] {
  const inputs: (Uint8Array | undefined)[] = [];
  const outputs: (Uint8Array | undefined)[] = [];
  for (const entry of readdirSync(folder)) {
    const [, kind, index] = /^(input|output)_(.*)\.pb$/.exec(entry) ?? [];
    if (kind === undefined) continue;
    if (!/^(0|[1-9]\d{0,8})$/.test(index) || Number(index) >= mostFiles)
      throw new InsituError("invalid-argument", `"${join(folder, entry)}": ${kind} files are numbered from 0 on`);
    (kind === "input" ? inputs : outputs)[Number(index)] = readFileSync(join(folder, entry));
  }
  return { inputs: Array.from(inputs), outputs: Array.from(outputs) };
}

function readTolerance(path: string): CaseFiles["tolerance"] {
  if (!existsSync(path)) return {};
  let meta: unknown;
  try {
    meta = JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new InsituError("invalid-argument", `"${path}" is not JSON`, { cause });
  }
  if (typeof meta !== "object" || meta === null)
    throw new InsituError("invalid-argument", `"${path}" must hold an object, got ${valueText(meta)}`);
  return {
    ...("rtol" in meta ? { rtol: meta.rtol } : {}),
    ...("atol" in meta ? { atol: meta.atol } : {}),
  };
}

/** Runs the case in a folder; one whose files cannot be read has failed. */
async function runFolder(folder: string, name: string, backend: BackendName | undefined): Promise<CaseResult> {
  let files: CaseFiles;
  try {
    files = readCase(folder, name);
  } catch (error) {
    return { name, status: "failed", reason: error instanceof Error ? error.message : String(error) };
  }
  return runCase(files, (model) => InferenceSession.create(model, backend === undefined ? {} : { backend }));
}

/** Runs the cases and says what became of each. */
export const conformance: Command = {
  name: "conformance",
  positionals: "<dir>",
  arity: [1, 1],
  summary: toolSummaries.conformance,
  options: {
    backend: { value: "name", describes: "the backend to run on" },
    filter: { value: "text", describes: "only the cases whose name contains this" },
    json: { describes: "one JSON object with every case's result" },
    verbose: { describes: "also list what passed and was skipped" },
  },
  async run({ positionals: [root], options }) {
    const filter = typeof options["filter"] === "string" ? options["filter"] : "";
    const backend = options["backend"] as BackendName | undefined;
    const json = options["json"] === true;
    const folders = findCases(root).filter((folder) => caseName(root, folder).includes(filter));
    if (folders.length === 0)
      throw new InsituError(
        "invalid-argument",
        `"${root}" holds no case${filter === "" ? "" : ` with "${filter}" in its name`}`,
      );
    const results: CaseResult[] = [];
    const showProgress = process.stderr.isTTY && !json;
    for (const folder of folders) {
      if (showProgress && results.length % 20 === 0) process.stderr.write(`\r${results.length} of ${folders.length} `);
      const result = await runFolder(folder, caseName(root, folder), backend);
      results.push(result);
      if (!json && (result.status === "failed" || options["verbose"] === true)) {
        console.log(`${result.status} ${result.name}${result.reason === undefined ? "" : `: ${result.reason}`}`);
      }
    }
    if (showProgress) process.stderr.write("\r\x1b[K");
    const count = (status: CaseResult["status"]): number => results.filter((result) => result.status === status).length;
    const [passed, failed, skipped] = [count("passed"), count("failed"), count("skipped")];
    if (json) console.log(JSON.stringify({ passed, failed, skipped, cases: results }, null, 2));
    else {
      for (const [reason, number] of countReasons(results)) console.log(`skipped ${number}: ${reason}`);
      for (const [reason, number] of countAllowances(results)) console.log(`allowed ${number}: ${reason}`);
    }
    // With --json the sentence goes beside the object, so that standard output stays JSON.
    (json ? process.stderr : process.stdout).write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
    return failed > 0 ? 1 : 0;
  },
};

const caseName = (root: string, folder: string): string => relative(root, folder) || basename(folder);

/** Cases that passed and have an allowance, by its reason. */
function countAllowances(results: readonly CaseResult[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { name, status } of results) {
    const reason = status === "passed" ? allowanceOf(name)?.reason : undefined;
    if (reason !== undefined) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return counts;
}

/** Skipped cases by reason, without the node's own name, most frequent first. */
function countReasons(results: readonly CaseResult[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { status, reason = "" } of results) {
    if (status !== "skipped") continue;
    const general = reason.replace(/^.*?: (?=operator |.* is a )/, "").replace(/; .*$/, "");
    counts.set(general, (counts.get(general) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
