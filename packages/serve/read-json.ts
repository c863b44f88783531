/** The JSON body of a request, within bounds that hold also where nobody says how long it is; it lives no longer than what is made of it. */
import { type BodyPlaces, type ComingBody, smallBytes } from "./body-places.js";
import { JsonBounds } from "./json-bounds.js";
import { ApiError, badField } from "./wire/api-error.js";
import type { WorkTurns } from "./work-turns.js";

/** What bodies are read with. */
interface ReadingMeans {
  readonly mostBytes: number;
  readonly places: BodyPlaces;
  readonly turns: WorkTurns;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

/** Reads the body as it comes and hands it on; throws once it is more than may be, and for what is no JSON. */
export async function withJson<T>(
  request: Request,
  { mostBytes, places, turns, signal }: ReadingMeans,
  use: (body: unknown) => Promise<T>,
): Promise<T> {
  requirePlain(request.headers);
  const told = Number(request.headers.get("content-length") ?? 0);
  if (told > mostBytes) throw tooLarge(mostBytes);
  const reader = request.body?.getReader();
  let refusal: Error | undefined;
  const end = (error: Error): void => {
    refusal ??= error;
    places.leave(body);
    // A read that waits finds the end of the body.
    reader?.cancel(error).catch(() => {});
  };
  const ended = (): void => end(signal.reason as Error);
  const body: ComingBody = { bytes: 0, isWhole: false, refuse: end };
  places.enter(body);
  signal.addEventListener("abort", ended, { once: true });
  try {
    const text =
      reader === undefined ? "" : await readText(reader, body, { mostBytes, places, refused: () => refusal });
    places.arrived(body);
    await turns.next();
    const value = parsed(text);
    // What is large is two pieces of work: to parse it, and to look at it.
    if (body.bytes > smallBytes) await turns.next();
    if (refusal !== undefined) throw refusal;
    return await use(value);
  } finally {
    signal.removeEventListener("abort", ended);
    places.leave(body);
  }
}

interface TextMeans extends Pick<ReadingMeans, "mostBytes" | "places"> {
  readonly refused: () => Error | undefined;
}

async function readText(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  body: ComingBody,
  { mostBytes, places, refused }: TextMeans,
): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const bounds = new JsonBounds();
  let text = "";
  let fault: unknown;
  try {
    for (let isSeated = false; ;) {
      const { done, value } = await reader.read();
      const refusal = refused() ?? (done ? fault : undefined);
      if (refusal !== undefined) throw refusal;
      if (done) return text + decoder.decode();
      body.bytes += value.length;
      if (body.bytes > mostBytes) throw tooLarge(mostBytes);
      // Who is refused for what it sent is heard to the end: a client that still sends may not find its answer.
      if (fault !== undefined) continue;
      try {
        bounds.push(value);
        text += decoder.decode(value, { stream: true });
      } catch (error) {
        [fault, text] = [error, ""];
        continue;
      }
      if (isSeated || body.bytes <= smallBytes) continue;
      await places.seat(body);
      isSeated = true;
    }
  } catch (error) {
    await reader.cancel().catch(() => {});
    const refusal = refused();
    if (refusal !== undefined) throw refusal;
    if (error instanceof ApiError) throw error;
    if (error instanceof TypeError) throw badField(undefined, "the body is not UTF-8", "invalid_json");
    throw new ApiError(400, "the body ended before it was whole", { code: "invalid_json", cause: error });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    // What the parser quotes of the body stays with the client that sent it.
    throw badField(undefined, `the body is no JSON: ${why}`, "invalid_json");
  }
}

/** Throws where a body says that it is packed, or in other letters than those that are read. */
function requirePlain(headers: Headers): void {
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "";
  if (encoding !== "" && encoding !== "identity")
    throw unsupported(`content-encoding: bodies are taken as they are, got "${encoding}"`);
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(headers.get("content-type") ?? "")?.[1].toLowerCase();
  if (charset !== undefined && !["utf-8", "utf8", "us-ascii", ""].includes(charset))
    throw unsupported(`content-type: bodies are UTF-8, got the charset "${charset}"`);
}

const unsupported = (message: string): ApiError => new ApiError(415, message, { code: "unsupported_media_type" });

const tooLarge = (mostBytes: number): ApiError =>
  new ApiError(413, `the body may have ${mostBytes} bytes`, { code: "body_too_large" });
