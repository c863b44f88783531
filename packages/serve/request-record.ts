/** One request from its coming to its end: what is told of it to the log and to the metrics, once. */
import { newId } from "./wire/identity.js";
import type { LogEntry } from "./options.js";
import type { Usage } from "./wire/text-event.js";

/** What became known of a request. */
export class RequestRecord {
  readonly id: string;
  readonly came: number = performance.now();
  readonly #request: Request;
  readonly #over: (record: RequestRecord, entry: LogEntry) => void;
  #told = false;
  /** True once an answer is under way that says itself when it is over. */
  streams = false;
  key: string | undefined;
  prompt: unknown;
  usage: Usage | undefined;
  firstToken: number | undefined;
  end: string | undefined;
  error: string | undefined;

  constructor(request: Request, over: (record: RequestRecord, entry: LogEntry) => void) {
    this.#request = request;
    this.#over = over;
    const given = request.headers.get("x-request-id");
    this.id = given !== null && /^[\w.:-]{1,128}$/.test(given) ? given : newId("req_");
  }

  get path(): string {
    return new URL(this.#request.url).pathname;
  }

  /** Tells it, the first time. */
  tell(status: number): void {
    if (this.#told) return;
    this.#told = true;
    const { usage } = this;
    const given = <T>(name: string, value: T | undefined): Record<string, T> =>
      value === undefined ? {} : { [name]: value };
    this.#over(this, {
      time: new Date().toISOString(),
      request: this.id,
      method: this.#request.method,
      path: this.path,
      status,
      milliseconds: Math.round(performance.now() - this.came),
      ...given("key", this.key),
      ...(this.streams ? { stream: true } : {}),
      ...given("promptTokens", usage?.promptTokens),
      ...given("cachedTokens", usage?.cachedTokens),
      ...given("newTokens", usage?.completionTokens),
      ...given(
        "firstTokenMilliseconds",
        this.firstToken === undefined ? undefined : Math.round(this.firstToken - this.came),
      ),
      ...given("end", this.end),
      ...given("error", this.error),
      ...given("prompt", this.prompt),
    });
  }
}
