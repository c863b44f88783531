// Conversations that are imported and merged, on many random forests and on files that somebody damaged: nothing is lost, nothing hangs, and what comes in
// is what the page can show.
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import {
  add,
  type Conversation,
  markdownOf,
  merge,
  newConversation,
  pathOf,
  readConversation,
  remove,
  type Said,
  siblingsOf,
  titleOf,
} from "../../site/src/state/conversation.js";
import { seededRandom } from "../../src/graph/call.js";
import { soak } from "../support/soak.js";

const rounds = soak ? 4000 : 400;

type Random = () => number;
const below = (random: Random, count: number): number => Math.floor(random() * count);
const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)];

/** Names that an object has without being told, and others that are unlike ours. */
const oddNames = ["__proto__", "constructor", "toString", "0", " ", "é\u0000", "x".repeat(500)];

const stats = { promptTokens: 3, reusedTokens: 1, newTokens: 2, firstTokenMilliseconds: 5, tokensPerSecond: 9.5 };

function randomMessage(random: Random, id: string, parent: string | undefined): Said {
  return {
    id,
    parent,
    role: random() < 0.5 ? "user" : "assistant",
    content: pick(random, ["", "Hello", "**bold**\n", "<b>", "\ud800"]),
    // Clocks go back, and stand still.
    created: 1 + below(random, 5),
    ...(random() < 0.2 ? { stats } : {}),
    ...(random() < 0.2 ? { finish: pick(random, ["stop", "length", "tool_calls", "stopped"] as const) } : {}),
    ...(random() < 0.2 ? { calls: [{ name: "look", arguments: "{}" }] } : {}),
    ...(random() < 0.1 ? { reasoning: "why", error: "gone", isJson: true, model: "m" } : {}),
  };
}

/** Goes on with a conversation, as one tab does. */
function grown(random: Random, start: Conversation, name: string): Conversation {
  let conversation = start;
  for (let steps = below(random, 12); steps > 0; steps--) {
    const { said } = conversation;
    const parent = said.length === 0 || random() < 0.15 ? undefined : pick(random, said).id;
    if (said.length > 0 && random() < 0.12) conversation = remove(conversation, pick(random, said).id);
    else {
      const isOdd = random() < 0.1;
      const id = isOdd ? `${pick(random, oddNames)}${name}` : `${name}${below(random, 1e9)}`;
      const isTaken = said.some((each) => each.id === id) || conversation.removed?.includes(id) === true;
      if (!isTaken && (parent === undefined || conversation.said.some((each) => each.id === parent)))
        conversation = add(conversation, randomMessage(random, id, parent));
    }
  }
  return { ...conversation, updated: 1 + below(random, 3) };
}

const idsOf = ({ said }: Conversation): string[] => said.map(({ id }) => id);

/** What every conversation that the page holds must be. */
function expectWhole(conversation: Conversation): void {
  const before = new Set<string>();
  for (const { id, parent, role, content, created, finish } of conversation.said) {
    expect(id).not.toBe("");
    expect(before.has(id), `${id} is there once`).toBe(false);
    expect(parent === undefined || before.has(parent), `${id} comes behind ${parent}`).toBe(true);
    expect(["user", "assistant"]).toContain(role);
    expect([undefined, "stop", "length", "tool_calls", "stopped"]).toContain(finish);
    expect(typeof content).toBe("string");
    expect(Number.isNaN(new Date(created).getTime())).toBe(false);
    before.add(id);
  }
  expect(Number.isNaN(new Date(conversation.updated).getTime())).toBe(false);
  const shown = pathOf(conversation);
  for (const [at, { parent }] of shown.entries()) expect(parent).toBe(shown[at - 1]?.id);
  expect(shown.length > 0).toBe(conversation.said.length > 0);
  // It goes to its end: the last has nobody behind it.
  const last = shown.at(-1)?.id;
  if (last !== undefined) expect(conversation.said.some(({ parent }) => parent === last)).toBe(false);
  for (const each of shown) expect(siblingsOf(conversation, each)).toContain(each);
  expect(typeof titleOf(conversation) + typeof markdownOf(conversation)).toBe("stringstring");
}

const throughFile = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test("what is exported comes in as it was", () => {
  const random = seededRandom(1);
  for (let round = 0; round < rounds; round++) {
    const conversation = grown(random, newConversation(random() < 0.5 ? "chat" : "raw"), "a");
    const { removed: _, ...rest } = conversation;
    const read = readConversation(throughFile(conversation))!;
    expectWhole(read);
    const known = new Set(idsOf(conversation));
    // Choices among messages that were taken back are left out.
    const chosen = Object.entries(rest.chosen).filter(
      ([from, way]) => known.has(way) && (from === "" || known.has(from)),
    );
    expect(read).toEqual({ ...rest, chosen: Object.fromEntries(chosen) });
    expect(pathOf(read)).toEqual(pathOf(conversation));
  }
});

test("tabs that went on by themselves are merged: no message of either is lost, in either order", () => {
  const random = seededRandom(2);
  let most = 0;
  for (let round = 0; round < rounds; round++) {
    const start = grown(random, newConversation("chat"), "s");
    const [own, other, third] = ["a", "b", "c"].map((name) => grown(random, start, name));
    const both = merge(own, other);
    expectWhole(both);
    const gone = new Set([...(own.removed ?? []), ...(other.removed ?? [])]);
    const all = new Map([...other.said, ...own.said].map((each) => [each.id, each]));
    // What was taken back is gone, with all that follows on it, whoever said it.
    const isGone = (id: string | undefined): boolean =>
      id !== undefined && (gone.has(id) || isGone(all.get(id)!.parent));
    const left = [...all.keys()].filter((id) => !isGone(id));
    expect(idsOf(both).toSorted()).toEqual(left.toSorted());
    for (const each of both.said) expect(each).toBe(own.said.find(({ id }) => id === each.id) ?? all.get(each.id));
    expect(idsOf(merge(other, own))).toEqual(idsOf(both));
    expect(idsOf(merge(both, own))).toEqual(idsOf(both));
    expect(merge(both, both)).toEqual(both);
    expect(idsOf(merge(both, third))).toEqual(idsOf(merge(own, merge(other, third))));
    most = Math.max(most, both.said.length);
  }
  expect(most).toBeGreaterThan(15);
});

/** Values that a file may have anywhere. */
const odd: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1e300,
  Number.MAX_SAFE_INTEGER,
  "",
  "a",
  "__proto__",
  "constructor",
  [],
  [null],
  [[]],
  {},
  { id: "a" },
  { length: 1e9 },
  { name: "n", arguments: 1 },
];

/** A copy in which a few values were changed, taken away, doubled or exchanged, wherever they are. */
function damaged(random: Random, value: unknown): unknown {
  const places: { readonly holder: Record<string, unknown>; readonly name: string }[] = [];
  const copy = { root: throughFile(value) };
  const walk = (holder: Record<string, unknown>): void => {
    for (const name of Object.keys(holder)) {
      places.push({ holder, name });
      const inner = holder[name];
      if (typeof inner === "object" && inner !== null) walk(inner as Record<string, unknown>);
    }
  };
  walk(copy as Record<string, unknown>);
  for (let count = 1 + below(random, 3); count > 0; count--) {
    const { holder, name } = pick(random, places);
    const other = pick(random, places);
    const kind = random();
    if (kind < 0.5) holder[name] = throughFile(pick(random, odd));
    else if (kind < 0.65) delete holder[name];
    else {
      // Copies: no file has a value below itself.
      const values = [throughFile(holder[name] ?? null), throughFile(other.holder[other.name] ?? null)];
      holder[name] = values[1];
      if (kind < 0.8) other.holder[other.name] = values[0];
    }
  }
  return (throughFile(copy) as { root?: unknown }).root;
}

test("a damaged file is refused, or comes in as something whole", () => {
  const random = seededRandom(3);
  const counts = { taken: 0, refused: 0 };
  for (let round = 0; round < rounds * 4; round++) {
    const good = grown(random, grown(random, newConversation("chat"), "s"), "a");
    const read = readConversation(damaged(random, good));
    if (read === undefined) {
      counts.refused++;
      continue;
    }
    counts.taken++;
    expectWhole(read);
    expect(readConversation(throughFile(read))).toEqual(read);
    expectWhole(merge(good, read));
    expectWhole(merge(read, good));
    expect(idsOf(merge(good, read)).filter((id) => !idsOf(read).includes(id)).length).toBeGreaterThanOrEqual(
      idsOf(good).filter((id) => !idsOf(read).includes(id)).length,
    );
  }
  expect(Math.min(counts.taken, counts.refused)).toBeGreaterThan(rounds / 4);
});

const said = (...messages: readonly unknown[]): object => ({ id: "c", said: messages });
const message = (id: unknown, parent?: unknown): object => ({ id, parent, role: "user", content: "x" });

test.each([
  ["nothing", null],
  ["a list", []],
  ["a text", "said"],
  ["an empty name", { id: "", said: [] }],
  ["messages that are no list", { id: "c", said: { length: 1 } }],
  ["a message that is null", said(null)],
  ["a message that is a number", said(7)],
  ["a message that is a list", said([])],
  ["a message without a name", said(message(""))],
  ["a name twice", said(message("a"), message("a"))],
  ["a message behind itself", said(message("a", "a"))],
  ["a ring", said(message("a", "b"), message("b", "a"))],
  ["a message behind one that is not there", said(message("a", "b"))],
  ["a message behind the place before the first", said(message("a", ""))],
  ["a message before the one that it follows on", said(message("b", "a"), message("a"))],
  ["a message behind null", said(message("a", null))],
  ["another role", said({ id: "a", role: "system", content: "x" })],
  ["content that is no text", said({ id: "a", role: "user", content: { toString: "x" } })],
])("%s is refused", (_, given) => {
  expect(readConversation(given)).toBeUndefined();
});

test("fields that are wrong or not known are left out", () => {
  const nested = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`) as unknown;
  const created = 1_700_000_000_000;
  const now = vi.spyOn(Date, "now").mockReturnValue(created);
  const read = readConversation({
    id: "c",
    mode: "other",
    title: 7,
    created: Number.POSITIVE_INFINITY,
    updated: 1e300,
    extra: nested,
    chosen: { "": "b", a: 1, nobody: "a" },
    said: [
      {
        id: "a",
        role: "assistant",
        content: "x",
        created: -1,
        finish: "exploded",
        calls: [{ name: "n", arguments: "{}", more: nested }],
        stats: { ...stats, more: 1, seed: "7", writtenBytes: -1 },
        deep: nested,
      },
      { id: "b", role: "user", content: "y", created: "12", calls: [null], stats: { ...stats, newTokens: null } },
    ],
  })!;
  now.mockRestore();
  expectWhole(read);
  expect(read).toEqual({
    id: "c",
    mode: "chat",
    created,
    updated: created,
    chosen: { "": "b" },
    said: [
      { id: "a", role: "assistant", content: "x", created, calls: [{ name: "n", arguments: "{}" }], stats },
      { id: "b", role: "user", content: "y", created },
    ],
  });
  // What was nested is gone: it would cost the export its stack.
  expect(JSON.stringify(read).length).toBeLessThan(1000);
});

test("versions that contradict each other make no ring", () => {
  const random = seededRandom(4);
  const names = ["a", "b", "c", "d", "e", "f"];
  /** A forest over some of the names, each behind one that came before. */
  const forest = (): Conversation => {
    const list = names.filter(() => random() < 0.8).toSorted(() => random() - 0.5);
    const messages = list.map((id, at) =>
      randomMessage(random, id, at === 0 || random() < 0.3 ? undefined : list[below(random, at)]),
    );
    const removed = names.filter(() => random() < 0.1);
    return { ...newConversation("chat"), updated: below(random, 3) + 1, said: messages, removed };
  };
  for (let round = 0; round < rounds; round++) expectWhole(merge(forest(), merge(forest(), forest())));
});

test("a hundred thousand branches, or as many turns, are read and merged", () => {
  const count = 150_000;
  for (const parentOf of [() => "0", (at: number) => String(at - 1)]) {
    const messages = Array.from({ length: count }, (_, at) => message(String(at), at === 0 ? undefined : parentOf(at)));
    const read = readConversation({ id: "c", said: messages })!;
    // Backwards in time, so that all of it has to be put in order.
    const late = { ...read, said: read.said.map((each, at) => ({ ...each, created: count - at })) };
    const both = merge(late, read);
    expect(both.said.length).toBe(count);
    expect(both.said[0].id).toBe("0");
    expect(pathOf(both).length).toBe(parentOf(2) === "0" ? 2 : count);
  }
});

let history: typeof import("../../site/src/state/history.js");
beforeAll(async () => {
  // A channel would keep the process; without storage the page holds conversations in memory.
  const { BroadcastChannel } = globalThis;
  Reflect.deleteProperty(globalThis, "BroadcastChannel");
  history = await import("../../site/src/state/history.js");
  globalThis.BroadcastChannel = BroadcastChannel;
});
afterAll(() => void vi.restoreAllMocks());

const fileOf = (...conversations: readonly unknown[]): string =>
  JSON.stringify({ format: "insitu-conversations", version: 1, conversations });

test("an import adds to what is there and loses nothing", async () => {
  const random = seededRandom(5);
  for (let round = 0; round < 50; round++) {
    const start = { ...grown(random, newConversation("chat"), "s"), removed: [] };
    const own = { ...grown(random, start, "a"), removed: [] };
    history.conversations.value = new Map([[own.id, own]]);
    const [file, before] = [history.exported(), grown(random, start, "b")];
    expect(await history.takeIn(fileOf(before, throughFile(newConversation("raw"))))).toBe(2);
    const together = history.conversations.value.get(own.id)!;
    expectWhole(together);
    expect(idsOf(together)).toEqual(expect.arrayContaining(idsOf(own)));
    expect(idsOf(together)).toEqual(expect.arrayContaining(idsOf(before)));
    expect(history.conversations.value.size).toBe(2);
    history.conversations.value = new Map();
    expect(await history.takeIn(file)).toBe(1);
    expect(idsOf(history.conversations.value.get(own.id)!)).toEqual(idsOf(own));
  }
});

test.each([
  ["", /not JSON/],
  ["{", /not JSON/],
  ["null", /no conversations/],
  ["7", /no conversations/],
  ["[]", /no conversations/],
  [JSON.stringify({ format: "insitu-conversations", conversations: {} }), /no conversations/],
  [JSON.stringify({ format: "others", conversations: [] }), /no conversations/],
  [fileOf(newConversation("chat"), null), /conversation 2 of 2 is damaged; nothing was taken in/],
  [fileOf(said(message("a", "b"), message("b", "a"))), /conversation 1 of 1 is damaged/],
])("the file %j is refused with its reason, and nothing changes", async (text, why) => {
  const before = history.conversations.value;
  await expect(history.takeIn(text)).rejects.toThrow(why);
  expect(history.conversations.value).toBe(before);
});
