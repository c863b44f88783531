/** Room for a download: what is thrown where there is none, and what is cleared then. */
import { bytesText } from "#insitu/base/bytes-text.js";
import { completeVariants } from "./kept-models.js";
import { type ModelStore, StorageFull } from "./model-store.js";

/** Throws where it is known beforehand that a store cannot hold so many bytes more. */
export async function checkRoom(store: ModelStore, name: string, bytes: number): Promise<void> {
  const free = await store.freeBytes();
  if (free === undefined || bytes <= free) return;
  throw new StorageFull(
    `"${name}"`,
    `it needs ${bytesText(bytes)} more, and ${store.place} has room for ${bytesText(free)}: take a smaller variant, or remove a model (models.list, models.remove; insitu models)`,
  );
}

/** Throws what ended a download; where there was no room, nothing of a model stays that is not there as a whole. */
export async function clearFull(store: ModelStore, folder: string, error: unknown): Promise<never> {
  if (error instanceof StorageFull && (await completeVariants(store, folder)).length === 0)
    await store.remove(folder).catch(() => undefined);
  throw error;
}
