/**
 * What else could have come at a token of the latest answer, and how likely it was: asked of the model when somebody looks. Telling it of every token
 * would slow all of them.
 */
import { effect, signal } from "@preact/signals";
import type { DrawnToken } from "../hosts/host.js";
import { drawn, host, making } from "./talk.js";

/** The latest look. */
let looking: AbortController | undefined;

/** Why the latest look found nothing. */
export const lookProblem = signal("");

// A new answer has the model to itself.
effect(() => {
  if (making.value !== undefined) looking?.abort();
});

const isSame = (one: DrawnToken, other: { readonly text: string; readonly token?: number }): boolean =>
  other.token === undefined ? one.text === other.text : one.ids?.at(-1) === other.token;

/** Asks for one token behind those before this one: the model has read them, and reads next to nothing. */
export async function lookUp(at: number): Promise<void> {
  const { id, tokens, asked } = drawn.peek();
  if (making.peek() !== undefined || asked === undefined || tokens[at]?.top !== undefined) return;
  looking?.abort();
  const own = new AbortController();
  looking = own;
  lookProblem.value = "";
  const { jsonSchema: _, stop: __, ...sampling } = asked.sampling;
  const wanted = {
    ...asked,
    sampling: { ...sampling, temperature: 0, maxTokens: 1, minTokens: 1 },
    after: tokens.slice(0, at),
    probabilities: true,
  };
  try {
    for await (const event of host.peek().ask(wanted, own.signal)) {
      const first = event.kind === "text" ? event.tokens?.[0] : undefined;
      if (first?.top === undefined) continue;
      await first.spell?.();
      if (own.signal.aborted || drawn.peek().id !== id) return;
      const { top } = first;
      const probability = top.find((each) => isSame(tokens[at], each))?.probability;
      const found = { ...tokens[at], top, ...(probability === undefined ? {} : { probability }) };
      drawn.value = { ...drawn.peek(), tokens: drawn.peek().tokens.with(at, found) };
      return;
    }
    lookProblem.value = "The model does not tell what else could have come here.";
  } catch (error) {
    if (!own.signal.aborted) lookProblem.value = (error as Error).message;
  }
}
