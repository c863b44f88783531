/** The bodies of errors as the clients of each door know them: OpenAI's, Anthropic's and Ollama's. */
import type { ApiError } from "./api-error.js";

/** Anthropic's words for statuses. */
const anthropicTypes: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [503, "overloaded_error"],
  [504, "timeout_error"],
]);

/** An error as Anthropic's clients know it. */
export const anthropicError = ({ status, message }: ApiError): object => ({
  type: "error",
  error: { type: anthropicTypes.get(status) ?? (status < 500 ? "invalid_request_error" : "api_error"), message },
});

/** An error as Ollama's clients know it. */
export const ollamaError = ({ message }: ApiError): object => ({ error: message });

/** The answer that tells of an error at a path. */
export function errorResponse(error: ApiError, path: string): Response {
  if (/^\/v1\/messages(\/|$)/.test(path)) return error.toResponse(anthropicError(error));
  return error.toResponse(path.startsWith("/api/") ? ollamaError(error) : error.body);
}
