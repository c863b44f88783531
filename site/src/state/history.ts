/** Conversations as the browser keeps them: in IndexedDB, one record each, shared by tabs. Where nothing can be kept they live as long as the page. */
import { computed, signal } from "@preact/signals";
import { type Conversation, merge, readConversation, titleOf } from "./conversation.js";

/** All of them, by name. */
export const conversations = signal<ReadonlyMap<string, Conversation>>(new Map());

/** What is looked for. */
export const query = signal("");

/** True where nothing can be kept. */
export const isForgetful = signal(false);

/** Those that hold what is looked for, the latest first. */
export const found = computed<readonly Conversation[]>(() => {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (conversation: Conversation): boolean => {
    if (words.length === 0) return true;
    const text = [titleOf(conversation), ...conversation.said.map(({ content }) => content)].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return [...conversations.value.values()].filter(holds).toSorted((a, b) => b.updated - a.updated);
});

const tabs = "BroadcastChannel" in globalThis ? new BroadcastChannel("insitu-history") : undefined;

let opening: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("insitu", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opening;
}

const answered = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function within<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => Promise<T>): Promise<T> {
  const store = (await database()).transaction("conversations", mode).objectStore("conversations");
  return work(store);
}

function show(conversation: Conversation): void {
  conversations.value = new Map(conversations.value).set(conversation.id, conversation);
}

/** Reads what there is, and hears of other tabs. */
export async function open(): Promise<void> {
  try {
    const all = (await within("readonly", (store) => answered(store.getAll()))) as readonly unknown[];
    const read = all.flatMap((each) => {
      const known = readConversation(each);
      const { removed } = (each ?? {}) as { readonly removed?: readonly string[] };
      return known === undefined ? [] : [{ ...known, ...(Array.isArray(removed) ? { removed } : {}) }];
    });
    conversations.value = new Map([...read.map((each) => [each.id, each] as const), ...conversations.value]);
  } catch {
    isForgetful.value = true;
  }
  tabs?.addEventListener(
    "message",
    ({ data }: MessageEvent<{ readonly saved?: Conversation; readonly removed?: string }>) => {
      const { saved, removed } = data;
      if (saved !== undefined) {
        const own = conversations.value.get(saved.id);
        show(own === undefined ? saved : merge(own, saved));
      }
      if (removed !== undefined) forget(removed);
    },
  );
}

/** Keeps a conversation; what another tab added meanwhile stays. */
export async function save(conversation: Conversation): Promise<void> {
  show(conversation);
  try {
    const together = await within("readwrite", async (store) => {
      const stored = (await answered(store.get(conversation.id))) as Conversation | undefined;
      const whole = stored === undefined ? conversation : merge(conversation, stored);
      await answered(store.put(whole));
      return whole;
    });
    tabs?.postMessage({ saved: together });
  } catch {
    isForgetful.value = true;
  }
}

function forget(id: string): void {
  const left = new Map(conversations.value);
  left.delete(id);
  conversations.value = left;
}

export async function removeConversation(id: string): Promise<void> {
  forget(id);
  tabs?.postMessage({ removed: id });
  await within("readwrite", (store) => answered(store.delete(id))).catch(() => (isForgetful.value = true));
}

/** Everything as one file. */
export const exported = (): string =>
  JSON.stringify(
    { format: "insitu-conversations", version: 1, conversations: [...conversations.value.values()] },
    undefined,
    1,
  );

/** Takes a file in; how many conversations it had. Throws for what is none, with nothing changed. */
export async function takeIn(text: string): Promise<number> {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new Error(`this file is not JSON: ${(error as Error).message}`, { cause: error });
  }
  const { format, conversations: list } = (given ?? {}) as Readonly<Record<string, unknown>>;
  if (format !== "insitu-conversations" || !Array.isArray(list))
    throw new Error("this file holds no conversations of this page: export them there first");
  const read = list.map(readConversation);
  const wrong = read.findIndex((each) => each === undefined);
  if (wrong >= 0) throw new Error(`conversation ${wrong + 1} of ${read.length} is damaged; nothing was taken in`);
  for (const each of read) {
    const own = conversations.value.get(each!.id);
    // The later of two versions is the one whose messages hold.
    if (own === undefined) await save(each!);
    else await save(own.updated >= each!.updated ? merge(own, each!) : merge(each!, own));
  }
  return read.length;
}
