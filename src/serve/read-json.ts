/** The JSON body of a request, within a bound that holds also where nobody says how long it is. */
import { ApiError, badField } from "./wire/api-error.js";

/** Reads the body as it comes; throws once it is too long, and for what is no JSON. */
export async function readJson(request: Request, mostBytes: number): Promise<unknown> {
  const told = Number(request.headers.get("content-length") ?? 0);
  if (told > mostBytes) throw tooLarge(mostBytes);
  const text = await readText(request, mostBytes);
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    // What the parser quotes of the body stays with the client that sent it.
    throw badField(undefined, `the body is no JSON: ${why}`, "invalid_json");
  }
}

async function readText(request: Request, mostBytes: number): Promise<string> {
  if (request.body === null) return "";
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const reader = request.body.getReader();
  let [text, bytes] = ["", 0];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text + decoder.decode();
      bytes += value.length;
      if (bytes > mostBytes) throw tooLarge(mostBytes);
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    await reader.cancel().catch(() => {});
    if (error instanceof ApiError) throw error;
    if (error instanceof TypeError) throw badField(undefined, "the body is not UTF-8", "invalid_json");
    throw new ApiError(400, "the body ended before it was whole", { code: "invalid_json", cause: error });
  }
}

const tooLarge = (mostBytes: number): ApiError =>
  new ApiError(413, `the body may have ${mostBytes} bytes`, { code: "body_too_large" });
