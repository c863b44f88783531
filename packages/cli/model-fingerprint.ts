/** What saved prefixes depend on beside tokens: the model's and the tokenizer's bytes, the version that computed them, and how. */
import { createHash } from "node:crypto";
import { createReadStream, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { env } from "#insitu/entry/env.js";

/** A digest of the files of a model's folder, or of the folder around an ONNX file, and of `settings`. Reads all of them. */
export async function modelFingerprint(source: string, settings: readonly unknown[]): Promise<string> {
  const digest = createHash("sha256").update(JSON.stringify([env.versions.insitu, ...settings]));
  for (const file of filesOf(source)) {
    digest.update(`\n${basename(file)} ${statSync(file).size}\n`);
    await pipeline(createReadStream(file), async (chunks: AsyncIterable<Uint8Array>) => {
      for await (const chunk of chunks) digest.update(chunk);
    });
  }
  return digest.digest("hex");
}

/** Everything that lies in the model's folder, however deep, or beside its file: weights have any name. */
function filesOf(source: string): string[] {
  const isFolder = statSync(source).isDirectory();
  const folder = isFolder ? source : dirname(source);
  return readdirSync(folder, { withFileTypes: true, recursive: isFolder })
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true)
    .toSorted();
}
