/** A conversation as a tree: what was said, and what might have been said instead. Every function gives a new one; nothing is changed in place. */
import type { Finish, TextStats } from "../hosts/host.js";

/** A call of a tool, as the model wrote it. */
export interface ToolCall {
  readonly name: string;
  readonly arguments: string;
}

/** One message. */
export interface Said {
  readonly id: string;
  readonly parent: string | undefined;
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly created: number;
  readonly reasoning?: string;
  readonly calls?: readonly ToolCall[];
  readonly stats?: TextStats;
  readonly finish?: Finish | "stopped";
  readonly error?: string;
  /** True if the text had to obey a schema. */
  readonly isJson?: boolean;
  readonly model?: string;
}

export type Mode = "chat" | "raw";

/** Everything that was said, and which way is shown. */
export interface Conversation {
  readonly id: string;
  readonly mode: Mode;
  /** What the visitor calls it; its first words where left out. */
  readonly title?: string;
  readonly created: number;
  readonly updated: number;
  readonly said: readonly Said[];
  /** Which of several messages is shown, by the one before them ("" for the first). */
  readonly chosen: Readonly<Record<string, string>>;
  /** Messages that were taken back: another tab's copy does not bring them again. */
  readonly removed?: readonly string[];
}

let last = 0;

/** A name that no other message has, and that sorts by time. */
export const newId = (): string =>
  `${Date.now().toString(36)}-${(last++).toString(36)}-${Math.random().toString(36).slice(2, 8)}`;

export const newConversation = (mode: Mode): Conversation => ({
  id: newId(),
  mode,
  created: Date.now(),
  updated: Date.now(),
  said: [],
  chosen: {},
});

/** Messages that follow on the same one, oldest first. */
export const siblingsOf = ({ said }: Conversation, { parent }: Said): readonly Said[] =>
  said.filter((each) => each.parent === parent);

/** What is shown, from the first message on. */
export function pathOf({ said, chosen }: Conversation): readonly Said[] {
  const children = new Map<string, Said[]>();
  for (const each of said) {
    const key = each.parent ?? "";
    const known = children.get(key);
    if (known === undefined) children.set(key, [each]);
    else known.push(each);
  }
  const path: Said[] = [];
  for (let key = ""; ;) {
    const next = children.get(key);
    if (next === undefined) return path;
    const shown = next.find(({ id }) => id === chosen[key]) ?? next.at(-1)!;
    path.push(shown);
    key = shown.id;
  }
}

/** Adds a message, and shows it. */
export const add = (conversation: Conversation, message: Said): Conversation => ({
  ...conversation,
  updated: Date.now(),
  said: [...conversation.said, message],
  chosen: { ...conversation.chosen, [message.parent ?? ""]: message.id },
});

/** Changes a message. */
export const change = (conversation: Conversation, id: string, by: Partial<Said>): Conversation => ({
  ...conversation,
  updated: Date.now(),
  said: conversation.said.map((each) => (each.id === id ? { ...each, ...by } : each)),
});

/** Takes a message back, with all that follows on it. */
export function remove(conversation: Conversation, id: string): Conversation {
  const gone = new Set([id]);
  for (const { id: each, parent } of conversation.said) if (parent !== undefined && gone.has(parent)) gone.add(each);
  const said = conversation.said.filter((each) => !gone.has(each.id));
  return { ...conversation, updated: Date.now(), said, removed: [...(conversation.removed ?? []), ...gone] };
}

/** Shows another of several messages. */
export const choose = (conversation: Conversation, { parent, id }: Said): Conversation => ({
  ...conversation,
  chosen: { ...conversation.chosen, [parent ?? ""]: id },
});

export const titleOf = ({ title, said }: Conversation): string =>
  title ?? (said[0]?.content.trim().replace(/\s+/g, " ").slice(0, 80) || "New conversation");

/** Messages in their order, each behind the one that it follows on: clocks go back, and files say what they like. What follows on none is left out. */
function parentsFirst(said: readonly Said[]): Said[] {
  const placed = new Set<string | undefined>([undefined]);
  const waiting = new Map<string, Said[]>();
  const sorted: Said[] = [];
  for (const each of said) {
    const next = [each];
    for (let message = next.pop(); message !== undefined; message = next.pop()) {
      const { id, parent } = message;
      if (parent !== undefined && !placed.has(parent)) {
        const known = waiting.get(parent);
        if (known === undefined) waiting.set(parent, [message]);
        else known.push(message);
        continue;
      }
      sorted.push(message);
      placed.add(id);
      for (const follower of waiting.get(id)?.toReversed() ?? []) next.push(follower);
    }
  }
  return sorted;
}

/** Two versions of one conversation together: no message of either is lost. */
export function merge(own: Conversation, other: Conversation): Conversation {
  const removed = [...new Set([...(own.removed ?? []), ...(other.removed ?? [])])];
  const known = new Map(other.said.map((each) => [each.id, each]));
  for (const each of own.said) known.set(each.id, each);
  for (const id of removed) known.delete(id);
  const newer = own.updated >= other.updated ? own : other;
  const said = [...known.values()].toSorted((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
  return {
    ...newer,
    said: parentsFirst(said),
    ...(removed.length === 0 ? {} : { removed }),
    chosen: { ...other.chosen, ...own.chosen },
  };
}

/** A conversation as Markdown, the way that is shown. */
export const markdownOf = (conversation: Conversation): string =>
  conversation.mode === "raw"
    ? pathOf(conversation)
        .map(({ content }) => content)
        .join("")
    : `# ${titleOf(conversation)}\n\n${pathOf(conversation)
        .map(({ role, content }) => `**${role === "user" ? "You" : "Model"}**\n\n${content}\n`)
        .join("\n")}`;

const isCall = (value: unknown): value is ToolCall =>
  isText((value as ToolCall | null)?.name) && isText((value as ToolCall).arguments);

/** The numbers of a text, and whether each is needed. */
const statNames: Readonly<Record<keyof TextStats, boolean>> = {
  promptTokens: true,
  reusedTokens: true,
  newTokens: true,
  firstTokenMilliseconds: true,
  tokensPerSecond: true,
  writtenBytes: false,
  movedBytes: false,
  copyingBytes: false,
  seed: false,
};

/** What a text took, from a file: numbers alone, none below zero. */
function readStats(given: unknown): TextStats | undefined {
  const stats: Record<string, number> = {};
  for (const [name, isNeeded] of Object.entries(statNames)) {
    const value = (given as Readonly<Record<string, unknown>> | null | undefined)?.[name];
    if (typeof value === "number" && Number.isFinite(value) && value >= 0) stats[name] = value;
    else if (isNeeded) return undefined;
  }
  return stats as Partial<TextStats> as TextStats;
}

const isText = (value: unknown): value is string => typeof value === "string";

const isFinish = (value: unknown): value is NonNullable<Said["finish"]> =>
  value === "stop" || value === "length" || value === "tool_calls" || value === "stopped";

/** The last time that a date can have. */
const lastTime = 8.64e15;

/** A time from a file; now where it has none. */
const readTime = (given: unknown): number =>
  typeof given === "number" && given > 0 && given <= lastTime ? given : Date.now();

/** A conversation from a file; undefined for what is none. Fields that are not known are left out. */
export function readConversation(given: unknown): Conversation | undefined {
  if (typeof given !== "object" || given === null) return undefined;
  const { id, mode, title, created, updated, said, chosen } = given as Readonly<Record<string, unknown>>;
  if (!isText(id) || id === "" || !Array.isArray(said)) return undefined;
  const known = new Set<string>();
  const messages: Said[] = [];
  for (const each of said as readonly unknown[]) {
    const fields = (each ?? {}) as Readonly<Record<string, unknown>>;
    const { id: own, parent, role, content, reasoning, calls, isJson, finish, error, model } = fields;
    // The empty name is that of the place before the first message.
    if (!isText(own) || own === "" || !isText(content) || known.has(own)) return undefined;
    if (role !== "user" && role !== "assistant") return undefined;
    // A message follows on one that came before it: so there are no rings.
    if (parent !== undefined && !(isText(parent) && known.has(parent))) return undefined;
    known.add(own);
    const stats = readStats(fields["stats"]);
    messages.push({
      id: own,
      parent,
      role,
      content,
      created: readTime(fields["created"]),
      ...(isText(reasoning) ? { reasoning } : {}),
      ...(Array.isArray(calls) && calls.every(isCall)
        ? { calls: calls.map(({ name, arguments: given }) => ({ name, arguments: given })) }
        : {}),
      ...(isJson === true ? { isJson } : {}),
      ...(stats === undefined ? {} : { stats }),
      ...(isFinish(finish) ? { finish } : {}),
      ...(isText(error) ? { error } : {}),
      ...(isText(model) ? { model } : {}),
    });
  }
  const ways = Object.entries((chosen ?? {}) as object).filter(
    ([from, way]) => isText(way) && known.has(way) && (from === "" || known.has(from)),
  );
  return {
    id,
    mode: mode === "raw" ? "raw" : "chat",
    ...(isText(title) ? { title } : {}),
    created: readTime(created),
    updated: readTime(updated),
    said: messages,
    chosen: Object.fromEntries(ways) as Record<string, string>,
  };
}
