/** What a text tells while it is made, whatever the endpoint: pieces of content, calls of tools, and its end. */

/** A token as its log-probability is told. */
export interface ToldToken {
  readonly token: number;
  readonly logprob: number;
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}

/** Why a text ended, in OpenAI's words. */
export type Finish = "stop" | "length" | "tool_calls";

/** One thing that a text tells. */
export type TextEvent =
  /** A piece of the text, with the tokens that became certain with it where log-probabilities are asked for. */
  | { readonly kind: "content"; readonly text: string; readonly tokens: readonly ToldToken[] }
  /** A piece of what the model thought before it answered. */
  | { readonly kind: "reasoning"; readonly text: string }
  /** A call begins. */
  | { readonly kind: "call"; readonly call: number; readonly id: string; readonly name: string }
  /** A piece of a call's arguments, which are JSON as a whole. */
  | { readonly kind: "arguments"; readonly call: number; readonly text: string }
  /** The end; `stop` is the stop string that it came with. */
  | { readonly kind: "finish"; readonly reason: Finish; readonly stop?: string };

/** What a request's texts took. */
export interface Usage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Those of them that are thoughts. */
  readonly reasoningTokens: number;
}

/** A stretch of one kind of a text: content, thoughts, or one call with its arguments. One is open at a time, the last. */
export interface TextItem {
  readonly kind: "content" | "reasoning" | "call";
  text: string;
  readonly tokens: ToldToken[];
  /** Of a call. */
  readonly id: string;
  readonly name: string;
  isOpen: boolean;
}

/** What an event does to a text's items: one is closed, one is opened, and text is added to the last. */
interface ItemChange {
  readonly closed: TextItem | undefined;
  readonly opened: TextItem | undefined;
}

/** What a text has become: the one account of it that every door's answer is written from. */
export class WholeText {
  readonly items: TextItem[] = [];
  /** All that is of these kinds. */
  content = "";
  reasoning = "";
  finish: Finish = "stop";

  /** Takes an event in. */
  add(event: TextEvent): ItemChange {
    const last = this.items.at(-1);
    if (event.kind === "finish") {
      this.finish = event.reason;
      return { closed: this.#close(), opened: undefined };
    }
    const kind = event.kind === "arguments" ? "call" : event.kind;
    const isBegun = event.kind !== "call" && last?.isOpen === true && last.kind === kind;
    const closed = isBegun ? undefined : this.#close();
    const named = event.kind === "call" ? event : { id: "", name: "" };
    const item = isBegun ? last : { kind, text: "", tokens: [], id: named.id, name: named.name, isOpen: true };
    if (!isBegun) this.items.push(item);
    if (event.kind !== "call") item.text += event.text;
    if (event.kind === "content") item.tokens.push(...event.tokens);
    if (event.kind === "content" || event.kind === "reasoning") this[event.kind] += event.text;
    return { closed, opened: isBegun ? undefined : item };
  }

  get tokens(): readonly ToldToken[] {
    return this.items.flatMap(({ tokens }) => tokens);
  }

  get calls(): readonly TextItem[] {
    return this.items.filter(({ kind }) => kind === "call");
  }

  #close(): TextItem | undefined {
    const last = this.items.at(-1);
    if (last?.isOpen !== true) return undefined;
    last.isOpen = false;
    return last;
  }
}
