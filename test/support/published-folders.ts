// Folders as onnxruntime-genai's model builder writes them (test/models/published*.tar.br): tiny sizes, random weights, the tool's own names, symbols
// and configuration, with onnxruntime's logits behind each of 12 greedy tokens where its CPU provider runs the file.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { readArchive } from "../../scripts/archive.mjs";

/** A prompt, and the logits behind it and behind each token that follows. */
export interface Answers {
  readonly prompt: readonly number[];
  readonly steps: readonly (readonly number[])[];
}

const archive = (name: string): Map<string, Uint8Array> =>
  readArchive(fileURLToPath(new URL(`../models/${name}.tar.br`, import.meta.url))) as Map<string, Uint8Array>;

/** The second has experts, and linear attention with an embedding file of the tests' own, which the builder leaves to others. */
const files = new Map([...archive("published"), ...archive("published-hybrids")]);

/** The names of all folders: ARCHITECTURE-PRECISION-PROVIDER. */
export const publishedFolders: readonly string[] = [...new Set([...files.keys()].map((path) => path.split("/")[0]))];

/** The files of a folder by name. */
export const publishedFiles = (folder: string): ReadonlyMap<string, Uint8Array> =>
  new Map(
    [...files].flatMap(([path, bytes]) =>
      path.startsWith(`${folder}/`) && !path.endsWith("/answers.json") ? [[path.slice(folder.length + 1), bytes]] : [],
    ),
  );

/** onnxruntime's answers, where it has any: what another provider's file of the same weights gives is close to them. */
export function publishedAnswers(folder: string): Answers | undefined {
  const bytes = files.get(`${folder}/answers.json`);
  return bytes && (JSON.parse(new TextDecoder().decode(bytes)) as Answers);
}

/** Files written to a new folder. */
export function writeFolder(contents: Iterable<readonly [path: string, bytes: Uint8Array | string | object]>): {
  readonly path: string;
  remove(): void;
} {
  const path = mkdtempSync(join(tmpdir(), "insitu-published-"));
  for (const [name, given] of contents) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    const isPlain = typeof given === "string" || given instanceof Uint8Array;
    writeFileSync(join(path, name), isPlain ? given : JSON.stringify(given));
  }
  return { path, remove: () => rmSync(path, { recursive: true }) };
}
