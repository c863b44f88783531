/** Where `insitu serve` keeps beginnings of texts: a folder of this machine, or a store that several servers share. */
import { readFileSync } from "node:fs";
import { InsituError } from "#insitu/base/error.js";
import type { CausalLM } from "#insitu/entry/node.js";
import { openPageFolder } from "#insitu/stores/page-folder.js";
import { openRedisPages } from "#insitu/stores/redis-pages.js";
import type { PrefixStore } from "#insitu/serve/running/prefix-store.js";
import { modelFingerprint } from "./model-fingerprint.js";

/** What the command line says of it. */
export interface PrefixOptions {
  readonly folder: string | undefined;
  readonly folderBytes: number | undefined;
  /** redis://host:port */
  readonly store: string | undefined;
  readonly secretFile: string | undefined;
  readonly secondsToLive: number | undefined;
  readonly deadlineMilliseconds: number | undefined;
  /** What the bytes of pages depend on beside the model and the backend. */
  readonly settings: readonly unknown[];
}

/** Beginnings of texts of this model's bytes, computed as this one computes, where some are to be kept. Refuses what means nothing before the model is there. */
export async function openPrefixes(
  lm: Promise<CausalLM>,
  options: PrefixOptions,
  tell: ((line: string) => void) | undefined,
): Promise<{ readonly prefixes?: Promise<PrefixStore> }> {
  const { folder, store: address, secretFile, deadlineMilliseconds } = options;
  if (folder === undefined && address === undefined) return {};
  if (folder !== undefined && address !== undefined)
    throw new InsituError("invalid-argument", "give --prefix-cache or --store, not both");
  const secret = secretFile === undefined ? undefined : readSecret(secretFile);
  const seconds = options.secondsToLive ?? 86_400;
  const store =
    address === undefined
      ? await openPageFolder(folder!, options.folderBytes ?? 2 ** 32)
      : await openRedisPages(address, seconds);
  const prefixes = lm.then(async (loaded) => {
    const fingerprint = await modelFingerprint(loaded.source, [loaded.session.backend, ...options.settings]);
    return {
      store,
      fingerprint,
      ...(address === undefined ? {} : { keptMilliseconds: 1000 * seconds }),
      ...(secret === undefined ? {} : { secret }),
      ...(deadlineMilliseconds === undefined ? {} : { deadlineMilliseconds }),
      ...(tell === undefined ? {} : { tell }),
    };
  });
  // A model that cannot be had is told by who loads it.
  prefixes.catch(() => {});
  return { prefixes };
}

function readSecret(file: string): Uint8Array {
  try {
    return new TextEncoder().encode(readFileSync(file, "utf8").trim());
  } catch (cause) {
    throw new InsituError(
      "invalid-argument",
      `--store-secret-file: ${file} cannot be read: ${(cause as Error).message}`,
      { cause },
    );
  }
}
