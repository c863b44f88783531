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

/** What a text became as a whole. */
export interface WholeText {
  content: string;
  reasoning: string;
  readonly tokens: ToldToken[];
  readonly calls: { readonly id: string; readonly name: string; arguments: string }[];
  finish: Finish;
}

/** Adds an event to what there is of a text. */
export function addEvent(text: WholeText, event: TextEvent): void {
  switch (event.kind) {
    case "content":
      text.content += event.text;
      text.tokens.push(...event.tokens);
      return;
    case "reasoning":
      text.reasoning += event.text;
      return;
    case "call":
      text.calls[event.call] = { id: event.id, name: event.name, arguments: "" };
      return;
    case "arguments":
      text.calls[event.call].arguments += event.text;
      return;
    case "finish":
      text.finish = event.reason;
      return;
    default:
      event satisfies never;
  }
}

/** A text of which nothing is known yet. */
export const emptyText = (): WholeText => ({ content: "", reasoning: "", tokens: [], calls: [], finish: "stop" });
