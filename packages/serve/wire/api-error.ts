/** Errors as OpenAI's clients know them: a status, and a body that says what was wrong, with which field, and by which stable code. */
import { InsituError } from "#insitu/base/error.js";

/** What a client is told of an error. */
interface ApiErrorParts {
  readonly param?: string | undefined;
  readonly code?: string | undefined;
  readonly retryAfterSeconds?: number | undefined;
  readonly cause?: unknown;
}

/** An error with a status of HTTP. */
export class ApiError extends Error {
  readonly status: number;
  readonly param: string | undefined;
  readonly code: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, message: string, parts: ApiErrorParts = {}) {
    super(message, parts.cause === undefined ? undefined : { cause: parts.cause });
    this.status = status;
    this.param = parts.param;
    this.code = parts.code;
    this.retryAfterSeconds = parts.retryAfterSeconds;
  }

  /** The body of the answer, or what an event of a stream holds. */
  get body(): { readonly error: Readonly<Record<string, string | null>> } {
    const { message, param = null, code = null } = this;
    return { error: { message, type: typeOf(this.status), param, code } };
  }

  /** The whole answer, with a body in OpenAI's form or another. */
  toResponse(body: object = this.body): Response {
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (this.retryAfterSeconds !== undefined) headers["retry-after"] = String(Math.max(1, this.retryAfterSeconds));
    if (this.status === 401) headers["www-authenticate"] = "Bearer";
    return new Response(JSON.stringify(body), { status: this.status, headers });
  }
}

/** OpenAI's word for a status. */
function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  if (status === 503) return "service_unavailable_error";
  if (status === 504) return "timeout_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

/** A request that is refused for a field of it. */
export const badField = (param: string | undefined, message: string, code = "invalid_value"): ApiError =>
  new ApiError(400, message, { param, code });

/** What was thrown, as an answer. What is nobody's fault but ours tells no more than that. */
export function apiErrorOf(error: unknown, param?: string): ApiError {
  if (error instanceof ApiError) return error;
  if (!(error instanceof InsituError))
    return new ApiError(500, "the server failed at this request", { code: "internal_error", cause: error });
  const { message } = error;
  switch (error.code) {
    case "queue-full":
      return new ApiError(429, message, { code: "queue_full", retryAfterSeconds: retryAfterOf(error), cause: error });
    case "context-overflow":
    case "context-full":
      return new ApiError(400, message, { code: "context_length_exceeded", param, cause: error });
    case "closed":
    case "released":
      return new ApiError(503, message, { code: "unavailable", retryAfterSeconds: 5, cause: error });
    case "device-lost":
    case "state-lost":
      return new ApiError(503, message, { code: error.code, retryAfterSeconds: 5, cause: error.cause ?? error });
    case "invalid-argument":
      return new ApiError(400, message, { code: "invalid_value", param, cause: error });
    default:
      return new ApiError(500, message, { code: error.code, cause: error });
  }
}

/** An error as a log has it: messages quote what clients sent, so that only those of the server's own failures are there. */
export function errorText({ status, message, code, param, cause }: ApiError): string {
  if (status >= 500)
    return cause instanceof Error && cause.message !== message ? `${message}: ${cause.message}` : message;
  return [code ?? String(status), ...(param === undefined ? [] : [param])].join(" ");
}

const retryAfterOf = (error: Error): number =>
  "retryAfterSeconds" in error && typeof error.retryAfterSeconds === "number" ? Math.ceil(error.retryAfterSeconds) : 1;
