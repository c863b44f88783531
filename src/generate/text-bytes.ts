/** Texts in the making as streams of the web: `new Response(stream)` sends them as they come. */

/** The texts of tokens. */
export async function* textsOf(
  tokens: AsyncIterable<{ readonly text: string }>,
): AsyncGenerator<string, void, undefined> {
  for await (const { text } of tokens) yield text;
}

/** Pieces of text as a stream of UTF-8. It is made while it is read, and given up where its reader leaves. */
export function textBytes(pieces: AsyncIterable<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const from = pieces[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await from.next();
        if (done === true) return controller.close();
        if (value !== "") return controller.enqueue(encoder.encode(value));
      }
    },
    async cancel() {
      await from.return?.();
    },
  });
}
