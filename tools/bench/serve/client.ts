/** One request as a client makes it: streamed from any server with OpenAI's interface, every piece noted with its time. */
import type { Ask } from "./workload.js";

/** A server that is measured. */
export interface Target {
  readonly name: string;
  readonly address: string;
  readonly model: string;
  readonly key: string | undefined;
  /** True if prompts are given in tokens: it has the same ones as the others. */
  readonly takesTokens?: boolean;
  /** Its process, where it is on this machine. */
  readonly pid?: number | undefined;
}

/** What became of a request. Times are milliseconds since it was sent. */
export interface Answered {
  readonly error: string | undefined;
  /** When each piece of text came. */
  readonly pieces: readonly number[];
  readonly text: string;
  readonly milliseconds: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly newTokens: number;
}

interface Chunk {
  readonly choices?: readonly { readonly text?: string }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly error?: { readonly message: string };
}

/** Asks, and waits for the whole text; `onPiece` is told how many pieces have come. Never rejects. */
export async function request(
  target: Target,
  { prompt, tokens, maxTokens, key: prefix }: Ask,
  onPiece?: (count: number) => void,
): Promise<Answered> {
  const { address, model, key, takesTokens } = target;
  const began = performance.now();
  const pieces: number[] = [];
  let text = "";
  let usage: NonNullable<Chunk["usage"]> | undefined;
  let error: string | undefined;
  try {
    const response = await fetch(`${address}/v1/completions`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(prefix === undefined ? {} : { "x-insitu-prefix": prefix }),
      },
      body: JSON.stringify({
        model,
        prompt: takesTokens === true ? (tokens ?? prompt) : prompt,
        max_tokens: maxTokens,
        temperature: 0,
        ignore_eos: true,
        stream: true,
        stream_options: { include_usage: true },
      }),
    });
    if (!response.ok) error = `${response.status} ${(await response.text()).slice(0, 200)}`;
    else
      for await (const chunk of chunksOf(response.body!)) {
        if (chunk.error !== undefined) error = chunk.error.message;
        const piece = chunk.choices?.[0]?.text ?? "";
        if (piece !== "") {
          pieces.push(performance.now() - began);
          onPiece?.(pieces.length);
        }
        text += piece;
        usage = chunk.usage ?? usage;
      }
  } catch (cause) {
    error = cause instanceof Error ? cause.message : String(cause);
  }
  return {
    error: error ?? (pieces.length === 0 ? "no text came" : undefined),
    text,
    pieces,
    milliseconds: performance.now() - began,
    promptTokens: usage?.prompt_tokens ?? 0,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
    newTokens: usage?.completion_tokens ?? pieces.length,
  };
}

async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Chunk, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop()!;
    for (const line of lines)
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6)) as Chunk;
  }
}
