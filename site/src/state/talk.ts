/** What the visitor does: say, stop, make again, go on, say it otherwise, choose a branch. Holds the conversation that is shown and the text in the making. */
import { batch, computed, signal } from "@preact/signals";
import type { Asked, DrawnToken, Host, SaidMessage, TextStats } from "../hosts/host.js";
import {
  add,
  change,
  choose,
  type Conversation,
  merge,
  type Mode,
  newConversation,
  newId,
  pathOf,
  remove,
  type Said,
  siblingsOf,
  type ToolCall,
} from "./conversation.js";
import { conversations, save } from "./history.js";
import { paced } from "./pace.js";
import { firstProblem, sampling, settings } from "./settings.js";

export type Panel = "cache" | "settings" | "models" | undefined;

export const host = signal<Host>(undefined as never);
export const current = signal<Conversation>(newConversation("chat"));
/** The panel at the side. */
export const panel = signal<Panel>(undefined);
/** The message that is being made, and how to stop it. */
export const making = signal<{ readonly id: string; readonly stop: AbortController } | undefined>(undefined);
/** What screen readers are told. */
export const announced = signal("");
/** Tokens of the latest text, with what else could have come; it lives as long as the page. */
export const drawn = signal<{
  readonly id: string;
  readonly tokens: readonly DrawnToken[];
  readonly stats: TextStats | undefined;
  /** What they are the answer to. */
  readonly asked: Asked | undefined;
}>({ id: "", tokens: [], stats: undefined, asked: undefined });
/** How long the latest change of branch took until it was on the screen. */
export const switched = signal<{ readonly id: string; readonly milliseconds: number } | undefined>(undefined);
/** All that was written, and would have been moved, since the page was opened. */
export const totals = signal({ written: 0, copying: 0, moved: 0, read: 0, reused: 0 });

export const path = computed<readonly Said[]>(() => pathOf(current.value));

/** What of the conversation does not change with every token: who looks at these alone is drawn seldom. */
export const currentId = computed<string>(() => current.value.id);
export const currentMode = computed<Mode>(() => current.value.mode);
export const isEmpty = computed<boolean>(() => path.value.length === 0);

/** How often a text in the making is drawn at most, and how often its numbers and its cache. */
const textMilliseconds = 33;
const cacheMilliseconds = 150;

/** How full the context is, by what the last answer took: its last token was drawn and has no row yet. */
export const contextTokens = computed<number>(() => {
  const stats = path.value.findLast((each) => each.stats !== undefined)?.stats;
  return stats === undefined ? 0 : stats.promptTokens + Math.max(0, stats.newTokens - 1);
});

const lastPlace = "insitu-last";

function show(conversation: Conversation): void {
  current.value = conversation;
  localStorage.setItem(lastPlace, conversation.id);
}

const keep = (): Promise<void> => save(current.value);

export function begin(mode: Mode): void {
  making.value?.stop.abort();
  show(newConversation(mode));
}

export function open(id: string): void {
  const found = conversations.value.get(id);
  if (found === undefined) return;
  if (id !== current.value.id) making.value?.stop.abort();
  show(found);
}

/** Goes on where this browser was left. */
export function resume(): void {
  const found = conversations.value.get(localStorage.getItem(lastPlace) ?? "");
  if (found !== undefined) current.value = found;
}

/** Takes over what another tab added to the conversation that is shown. What was taken back here stays so. */
export function takeOver(): void {
  const own = current.peek();
  const stored = conversations.value.get(own.id);
  if (stored === undefined || stored === own || making.value !== undefined) return;
  const both = merge(own, stored);
  if (both.said.length > own.said.length) current.value = both;
}

/** Says something. False where a setting stands in the way: it is shown. */
export const say = (content: string): boolean => sayAfter(path.value.at(-1)?.id, content);

function sayAfter(parent: string | undefined, content: string): boolean {
  if (blocked()) return false;
  const message: Said = { id: newId(), parent, role: "user", content, created: Date.now() };
  show(add(current.value, message));
  void make(message.id);
  return true;
}

/** True where a setting is wrong: it is shown then. */
function blocked(): boolean {
  if (firstProblem.value === undefined) return false;
  panel.value = "settings";
  requestAnimationFrame(() => document.getElementById(`setting-${firstProblem.value?.name}`)?.focus());
  return true;
}

/** Says a message otherwise: a branch of its own. */
export const sayOtherwise = (message: Said, content: string): boolean => sayAfter(message.parent, content);

/** Writes an answer otherwise than the model did: a branch of its own, which the conversation goes on from. */
export function rewrite({ parent, model }: Said, content: string): void {
  const message: Said = { id: newId(), parent, role: "assistant", content, created: Date.now() };
  current.value = add(current.value, model === undefined ? message : { ...message, model });
  void keep();
}

/** Takes a message back, with all that follows on it. */
export function takeBack({ id }: Said): void {
  current.value = remove(current.value, id);
  void keep();
}

/** Gives a conversation a name; an empty one takes it away. */
export function rename(id: string, name: string): void {
  const found = conversations.value.get(id);
  if (found === undefined) return;
  const { title: _, ...rest } = id === current.value.id ? current.value : found;
  const named: Conversation = { ...rest, updated: Date.now(), ...(name.trim() === "" ? {} : { title: name.trim() }) };
  if (id === current.value.id) current.value = named;
  void save(named);
}

/** Makes an answer again: a branch of its own; one that failed with nothing is replaced. */
export function regenerate(message: Said): void {
  if (blocked() || making.value !== undefined) return;
  const isNothing = message.content === "" && message.error !== undefined;
  if (isNothing) current.value = remove(current.value, message.id);
  void make(message.parent);
}

/** Goes on with an answer that ended too soon. */
export function goOn(message: Said): void {
  if (blocked() || making.value !== undefined) return;
  void make(message.parent, message);
}

export function stop(): void {
  making.value?.stop.abort();
}

/** Shows another branch, and measures how long that takes until it is on the screen. */
export function switchTo(message: Said, by: number): void {
  const all = siblingsOf(current.value, message);
  const next = all[all.findIndex(({ id }) => id === message.id) + by];
  if (next === undefined) return;
  const began = performance.now();
  current.value = choose(current.value, next);
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    // A message after the frame: it has been laid out and painted then.
    channel.port1.onmessage = () => (switched.value = { id: next.id, milliseconds: performance.now() - began });
    channel.port2.postMessage(undefined);
  });
  void keep();
}

/** What the model is given for the way from the first message to this one. */
function askedFor(upTo: string | undefined, going: Said | undefined): Pick<Asked, "messages" | "prompt" | "partial"> {
  const byId = new Map(current.value.said.map((each) => [each.id, each]));
  const way: Said[] = [];
  for (let each = byId.get(upTo ?? ""); each !== undefined; each = byId.get(each.parent ?? "")) way.unshift(each);
  if (current.value.mode === "raw")
    return { prompt: [...way, ...(going === undefined ? [] : [going])].map(({ content }) => content).join("") };
  const { system } = settings.value;
  const messages: SaidMessage[] = [
    ...(system.trim() === "" ? [] : [{ role: "system" as const, content: system }]),
    ...way.map(({ role, content }) => ({ role, content })),
  ];
  return { messages, ...(going === undefined ? {} : { partial: going.content }) };
}

/** What has come of a text since it was last shown. */
interface Coming {
  content: string;
  reasoning: string;
  calls: ToolCall[];
  tokens: DrawnToken[];
  stats: TextStats | undefined;
  finish: Said["finish"];
  /** Where the part that screen readers were told ends. */
  told: number;
}

/** Makes an answer, and shows it frame by frame. */
async function make(parent: string | undefined, going?: Said): Promise<void> {
  const stopping = new AbortController();
  const asked = askedFor(parent, going);
  const wanted = sampling.value;
  const probabilities = panel.value === "cache" && settings.value.probabilities === "all";
  const whole: Asked = { ...asked, sampling: wanted, probabilities };
  const message: Said = going ?? {
    id: newId(),
    parent,
    role: "assistant",
    content: "",
    created: Date.now(),
    ...(wanted.jsonSchema === undefined ? {} : { isJson: true }),
    ...(host.value.model.value === undefined ? {} : { model: host.value.model.value.name }),
  };
  const coming: Coming = {
    content: message.content,
    reasoning: message.reasoning ?? "",
    calls: [],
    tokens: [],
    stats: undefined,
    finish: undefined,
    told: message.content.length,
  };
  const conversation = current.value.id;
  batch(() => {
    if (going === undefined) current.value = add(current.value, message);
    else current.value = change(current.value, message.id, { error: undefined, finish: undefined });
    making.value = { id: message.id, stop: stopping };
    drawn.value = { id: message.id, tokens: [], stats: undefined, asked: whole };
  });
  void keep();
  let counted = -Infinity;
  const showNow = (end?: Partial<Said>): void => {
    const { content, reasoning, calls, stats, finish } = coming;
    const isDue = end !== undefined || performance.now() - counted >= cacheMilliseconds;
    if (isDue) counted = performance.now();
    const state: Partial<Said> = {
      content,
      ...(reasoning === "" ? {} : { reasoning }),
      ...(calls.length === 0 ? {} : { calls: [...calls] }),
      ...(stats === undefined || !isDue ? {} : { stats }),
      ...(finish === undefined ? {} : { finish }),
      ...end,
    };
    batch(() => {
      if (current.value.id === conversation) current.value = change(current.value, message.id, state);
      else {
        const other = conversations.value.get(conversation);
        if (other !== undefined && making.value === undefined) void save(change(other, message.id, state));
      }
      // What is left for later is drawn also where no more tokens come.
      if (!isDue) pace.soon();
      else drawn.value = { id: message.id, tokens: coming.tokens, stats, asked: whole };
    });
    tell(coming, false);
  };
  const pace = paced(textMilliseconds, () => showNow());
  let error: string | undefined;
  try {
    for await (const event of host.value.ask(whole, stopping.signal)) {
      note(coming, event);
      pace.soon();
    }
  } catch (thrown) {
    if (stopping.signal.aborted) coming.finish = "stopped";
    else error = thrown instanceof Error ? thrown.message : String(thrown);
  }
  pace.stop();
  batch(() => {
    making.value = undefined;
    showNow(error === undefined ? {} : { error });
  });
  tell(coming, true, error);
  const { stats } = coming;
  const { written, copying, moved, read, reused } = totals.value;
  if (stats !== undefined)
    totals.value = {
      written: written + (stats.writtenBytes ?? 0),
      copying: copying + (stats.copyingBytes ?? 0),
      moved: moved + (stats.movedBytes ?? 0),
      read: read + stats.promptTokens - stats.reusedTokens,
      reused: reused + stats.reusedTokens,
    };
  if (current.value.id === conversation) void keep();
}

function note(coming: Coming, event: import("../hosts/host.js").TextEvent): void {
  switch (event.kind) {
    case "text":
      coming.content += event.text;
      coming.tokens.push(...(event.tokens ?? [{ text: event.text }]));
      return;
    case "reasoning":
      coming.reasoning += event.text;
      return;
    case "call": {
      const { name = "", arguments: more = "" } = event;
      const before = coming.calls[event.index] ?? { name: "", arguments: "" };
      coming.calls[event.index] = { name: before.name + name, arguments: before.arguments + more };
      return;
    }
    case "stats":
      coming.stats = event.stats;
      return;
    case "finish":
      coming.finish = event.finish;
      return;
    default:
      event satisfies never;
  }
}

/** Tells screen readers whole sentences, one after the other, and the end. */
function tell(coming: Coming, isOver: boolean, error?: string): void {
  const rest = coming.content.slice(coming.told);
  const end = isOver ? rest.length : (/[^]*[.!?…:](?=\s)/.exec(rest)?.[0].length ?? 0);
  if (end > 0) {
    announced.value = rest.slice(0, end).trim();
    coming.told += end;
  }
  if (isOver)
    announced.value = error ?? `${announced.value} – ${coming.finish === "stopped" ? "stopped" : "end of the answer"}`;
}
