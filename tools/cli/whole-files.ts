/** Files that are there as a whole or not at all: written and copied under another name first, then renamed. */
import { constants, copyFile, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { InsituError } from "#insitu/base/error.js";

/** Bytes compared at a time. */
const chunk = 2 ** 20;

/** The name that a file has while it is not whole. */
export const temporaryName = (path: string): string => join(dirname(path), `.${basename(path)}.${process.pid}.tmp`);

const reasonOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** Writes pieces one after another; nothing stays where that fails. */
export async function writePieces(path: string, pieces: readonly Uint8Array[]): Promise<void> {
  try {
    const file = await open(path, "w");
    try {
      // Unlike `write`, this goes on until everything is there.
      for (const piece of pieces) await file.writeFile(piece);
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (cause) {
    await rm(path, { force: true });
    throw new InsituError("invalid-argument", `the rewritten model cannot be written: ${reasonOf(cause)}`, { cause });
  }
}

/** Copies a file; leaves one of the same contents alone and refuses to replace one of other contents. */
export async function copyWhole(source: string, target: string): Promise<void> {
  if (resolve(source) === resolve(target)) return;
  if ((await stat(target).catch(() => undefined)) !== undefined) {
    if (await sameContents(source, target)) return;
    throw new InsituError(
      "external-data",
      `${target} is there and holds something else than ${source}: give an output in another folder`,
    );
  }
  const temporary = temporaryName(target);
  try {
    await mkdir(dirname(target), { recursive: true });
    await copyFile(source, temporary, constants.COPYFILE_FICLONE);
    await rename(temporary, target);
  } catch (cause) {
    await rm(temporary, { force: true });
    throw new InsituError("external-data", `${source} cannot be copied to ${target}: ${reasonOf(cause)}`, { cause });
  }
}

async function sameContents(first: string, second: string): Promise<boolean> {
  const files = [await open(first), await open(second)];
  try {
    const sizes = await Promise.all(files.map(async (file) => (await file.stat()).size));
    if (sizes[0] !== sizes[1]) return false;
    const [a, b] = [Buffer.alloc(chunk), Buffer.alloc(chunk)];
    for (let at = 0; at < sizes[0]; at += chunk) {
      const length = Math.min(chunk, sizes[0] - at);
      await Promise.all([files[0].read(a, 0, length, at), files[1].read(b, 0, length, at)]);
      if (a.compare(b, 0, length, 0, length) !== 0) return false;
    }
    return true;
  } finally {
    for (const file of files) await file.close();
  }
}
