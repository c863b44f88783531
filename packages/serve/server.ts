/**
 * OpenAI's HTTP interface over a language model, and others (other-doors.ts), as one function from requests to responses: `insitu/serve`. Node, Bun
 * and Deno can listen with it. Which paths there are, who may ask, and what state the server is in are decided here; what requests say is read in wire/.
 */
import { Hono, type Context } from "hono";
import { cors } from "hono/cors";
import { InsituError } from "#insitu/base/error.js";
import { valueText } from "#insitu/base/value-text.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import { type AnswerTools, answerTexts } from "./answer-texts.js";
import { BodyPlaces } from "./body-places.js";
import type { Engine, EngineFigures } from "./engine.js";
import { engineFor } from "./engine-for.js";
import { type Client, Keys } from "./keys.js";
import { Metrics } from "./metrics.js";
import { ModelLife, usualRetry } from "./model-life.js";
import { ModelList } from "./model-list.js";
import { type OpenRequest, OpenRequests } from "./open-requests.js";
import { openOtherDoors } from "./other-doors.js";
import { type ModelSource, readServerOptions, type ServerOptions, type ServerSettings } from "./options.js";
import { pageResponse } from "./page.js";
import { givenPrefixKey, prefixHeader, prefixKey } from "./prefix-key.js";
import { withJson } from "./read-json.js";
import { requirePlace } from "./require-place.js";
import { Refusals } from "./refusals.js";
import { ClientGone, clientGone, RequestEnd } from "./request-end.js";
import { RequestRecord } from "./request-record.js";
import { ApiError, apiErrorOf, badField, errorText } from "./wire/api-error.js";
import { cacheBody, planBody } from "./wire/cache.js";
import { prepareChat } from "./wire/chat.js";
import { prepareCompletion } from "./wire/completions.js";
import { prepareEmbedded, prepareEmbeddings } from "./wire/embeddings.js";
import { errorResponse } from "./wire/error-forms.js";
import type { Answering, Embedding, Prepared, Reading } from "./wire/prepared.js";
import { prepareRanked, prepareRerank } from "./wire/rerank.js";
import { prepareResponse } from "./wire/responses.js";
import { ServedModels, type TakenModel } from "./served-models.js";
import { ServedModel } from "./wire/served-model.js";
import { detokenize, tokenize } from "./wire/tokens.js";
import { WorkTurns } from "./work-turns.js";

export type { LogEntry, ModelSource, ServerLimits, ServerOptions } from "./options.js";
export type { Engine } from "./engine.js";
export { oneAtATime } from "./one-at-a-time.js";

/** What a server does right now. */
export type ServerStatus = "loading" | "ready" | "lost" | "draining" | "closed";

/** A server without a port: pass it requests with `fetch`, from Node, Bun, Deno or a framework. */
export interface Server {
  /** Answers one request. Never rejects; can be handed on by itself. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Resolves when the model is loaded; rejects if it cannot be loaded. */
  readonly ready: Promise<void>;
  /** The status that /health reports. */
  readonly status: ServerStatus;
  /** Accepts no more requests, lets completions finish within the time, and closes. Completions that are left end with an error. */
  drain(limitMilliseconds?: number): Promise<void>;
  /** Ends everything now. The model is its owner's to release; one that `reload` gave is released here. */
  close(): Promise<void>;
}

interface AskedTools extends AnswerTools {
  /** Reads the body and makes something of it, for the model that it names; from then on the request counts as open. */
  read<T>(read: Reading<T>, embeds?: Embedding<T>): Promise<T>;
}
interface Env {
  Variables: { record: RequestRecord; client: Client };
}
type Asked = Context<Env>;

/**
 * Makes an OpenAI-compatible server: a `fetch` handler for one model, or for several that are loaded when requests name them.
 * @throws InsituError `invalid-argument` for invalid options.
 * @example
 * ```ts
 * import { CausalLM } from "insitu";
 * import { createServer } from "insitu/serve";
 * const { fetch } = createServer(CausalLM.load(undefined, { cache: "paged" })); // for Bun, Deno, Hono, Next.js
 * console.log(await (await fetch(new Request("http://localhost/v1/models"))).json());
 * ```
 */
export function createServer(
  models: LanguageModel | Promise<LanguageModel> | readonly ModelSource[],
  options?: ServerOptions,
): Server {
  const settings = readServerOptions(options);
  const given = Array.isArray(models) ? (models as readonly ModelSource[]) : Promise.resolve(models as LanguageModel);
  return new HttpServer(given, settings, options?.engine ?? ((loaded) => engineFor(loaded, settings)));
}

class HttpServer implements Server {
  readonly ready: Promise<void>;
  readonly #settings: ServerSettings;
  readonly #metrics: Metrics;
  readonly #keys: Keys;
  readonly #app: Hono<Env>;
  readonly #open: OpenRequests;
  readonly #places = new BodyPlaces();
  readonly #turns = new WorkTurns();
  readonly #refusals = new Refusals();
  /** The one model; none where there are several. */
  readonly #life: ModelLife | undefined;
  readonly #models: ServedModels | undefined;
  readonly #list: ModelList;
  /** Set once the server takes nothing in any more. */
  #ending: "draining" | "closed" | undefined;

  readonly fetch = async (request: Request): Promise<Response> => {
    try {
      return await this.#app.fetch(request);
    } catch (error) {
      return errorResponse(apiErrorOf(error), new URL(request.url).pathname);
    }
  };

  constructor(
    given: Promise<LanguageModel> | readonly ModelSource[],
    settings: ServerSettings,
    makeEngine: (lm: LanguageModel) => Engine | Promise<Engine>,
  ) {
    this.#settings = settings;
    this.#open = new OpenRequests(settings.limits);
    this.#keys = new Keys(settings.apiKeys, settings.sharePrefixes);
    this.#metrics = new Metrics(
      settings.metricsDialect,
      settings.model,
      this.#figures,
      "then" in given ? [] : given.map(({ name }) => name),
    );
    this.#app = this.#routes();
    const { reload, tell, memory, keepAlive } = settings;
    if ("then" in given) {
      const prepare = (lm: LanguageModel): Promise<ServedModel> => this.#prepare(lm, settings.model, makeEngine);
      this.#life = new ModelLife(given, { prepare, reload, tell });
      this.ready = this.#life.ready;
    } else {
      const prepare = (lm: LanguageModel, name: string): Promise<ServedModel> => this.#prepare(lm, name, makeEngine);
      this.#models = new ServedModels(given, { memory, keepAlive, prepare, tell });
      this.ready = this.#models.begin();
    }
    this.#list = new ModelList(settings, this.#models);
    // Who does not ask for it hears of it from /health.
    this.ready.catch(() => void (this.#ending = "closed"));
  }

  get status(): ServerStatus {
    return this.#ending ?? this.#life?.status ?? "ready";
  }

  async drain(limitMilliseconds = 30_000): Promise<void> {
    if (this.#ending === "closed") return;
    this.#ending = "draining";
    await this.#life?.model?.engine.drain(limitMilliseconds);
    await this.#models?.drain(limitMilliseconds);
    await this.close();
  }

  async close(): Promise<void> {
    this.#ending = "closed";
    await this.#life?.close();
    await this.#models?.close();
  }

  async #prepare(
    lm: LanguageModel,
    name: string,
    makeEngine: (lm: LanguageModel) => Engine | Promise<Engine>,
  ): Promise<ServedModel> {
    if (typeof lm !== "object" || lm === null || !("tokenizer" in lm))
      throw new InsituError("invalid-argument", `a server is made of a language model, got ${valueText(lm)}`);
    return new ServedModel(lm, await makeEngine(lm), name, this.#turns, new Set(this.#list.aliasesOf(name)));
  }

  #routes(): Hono<Env> {
    const app = new Hono<Env>();
    app.use(async (c, next) => {
      const record = new RequestRecord(c.req.raw, (of, entry) => {
        this.#metrics.request(this.#isKnown(of.path) ? of.path : "other", entry.status);
        this.#settings.log(entry);
      });
      c.set("record", record);
      await next();
      c.res.headers.set("x-request-id", record.id);
      if (record.path.startsWith("/v1/messages")) c.res.headers.set("request-id", record.id);
      c.res.headers.set("x-content-type-options", "nosniff");
      if (!record.streams) record.tell(c.res.status);
    });
    const { cors: origins, keepAlive } = this.#settings;
    if (origins.length > 0)
      app.use(
        cors({
          origin: origins.includes("*") ? "*" : [...origins],
          exposeHeaders: ["x-request-id", "request-id", "retry-after", prefixHeader],
        }),
      );
    app.use(async (c, next) => {
      requirePlace(c.req.raw, this.#settings);
      await next();
    });
    app.get("/", async (c) => (await pageResponse("/", c.req.header("accept-encoding")))!);
    app.get("/health", () => this.#health());
    app.get("/metrics", () => this.#metrics.response());
    for (const path of ["/v1/*", "/api/*", "/tokenize", "/detokenize"])
      app.use(path, (c, next) => this.#authorize(c, next));
    this.#texts(app, "/v1/chat/completions", prepareChat);
    this.#texts(app, "/v1/completions", prepareCompletion);
    this.#texts(app, "/v1/responses", prepareResponse);
    this.#plain(app, "/v1/embeddings", prepareEmbeddings, prepareEmbedded);
    this.#plain(app, "/v1/rerank", prepareRerank, prepareRanked);
    this.#plain(app, "/tokenize", tokenize);
    this.#plain(app, "/detokenize", detokenize);
    app.get("/v1/cache", (c) => c.json(cacheBody(this.#lookedAt(c)?.engine.pool?.(c.get("client").tenant))));
    app.get("/v1/cache/plan", (c) => c.json(planBody(this.#lookedAt(c))));
    app.get("/v1/models", (c) => c.json({ object: "list", data: this.#list.described(this.#requireOpen()) }));
    app.get("/v1/models/:model{.+}", (c) => {
      const name = this.#list.nameOf(c.req.param("model"));
      return c.json(this.#list.described(this.#requireOpen()).find(({ id }) => id === name));
    });
    openOtherDoors({
      texts: (path, read) => this.#texts(app, path, read),
      plain: (path, read, embeds) => this.#plain(app, path, read, embeds),
      tells: (path, body) => app.get(path, async (c) => c.json(await body())),
      refuses: (methods, path, error) =>
        app.on([...methods], path, (c) => {
          throw error(c.req.path);
        }),
      models: () => this.#list.listed(this.#requireOpen()),
      keepAlive,
    });
    app.notFound(
      async (c) =>
        (c.req.method === "GET" && (await pageResponse(c.req.path, c.req.header("accept-encoding")))) ||
        this.#notFound(c),
    );
    app.onError((error, c) => this.#refuse(error, c));
    return app;
  }

  /** An endpoint that makes texts. */
  #texts(app: Hono<Env>, path: string, read: Reading<Prepared>): void {
    app.post(path, (c) =>
      this.#answer(c, async (tools) => {
        const { shown, ...prepared } = await tools.read(read);
        if (this.#settings.logPrompts) tools.record.prompt = shown;
        const response = await answerTexts(prepared, tools);
        // What it was called by at first stays: the next turn is found where this one was read.
        const given = givenPrefixKey(c.req.header(prefixHeader));
        for (const { prompt } of prepared.asks.slice(0, 1))
          response.headers.set(prefixHeader, given ?? prefixKey(tools.client.salt, prompt));
        return response;
      }),
    );
  }

  /** An endpoint that answers with one object. */
  #plain(app: Hono<Env>, path: string, read: Reading<Answering>, embeds?: Embedding<Answering>): void {
    app.post(path, (c) =>
      this.#answer(c, async (tools) => {
        const answer = await tools.read(read, embeds);
        const response = Response.json(await answer(tools.signal, tools.client));
        tools.over();
        return response;
      }),
    );
  }

  /** One request to its end: whatever its work does, it is answered by its time, and counted out. */
  async #answer(c: Asked, work: (asked: AskedTools) => Promise<Response>): Promise<Response> {
    const { limits } = this.#settings;
    const [client, record] = [c.get("client"), c.get("record")];
    this.#requireOpen();
    this.#open.require(client.tenant);
    const end = new RequestEnd(c.req.raw.signal, limits.seconds);
    let open: OpenRequest | undefined;
    let [taken, isOver]: [TakenModel | undefined, boolean] = [undefined, false];
    const tools: AskedTools = {
      get model() {
        return taken!.model;
      },
      metrics: this.#metrics,
      limits,
      client,
      record,
      signal: end.signal,
      // Open is what is there: bodies that come slowly take nobody's place.
      read: (read, embeds) =>
        withJson(
          c.req.raw,
          { mostBytes: limits.bodyBytes, places: this.#places, turns: this.#turns, signal: end.signal },
          async (body) => {
            open = this.#open.enter(client.tenant);
            const embedder = embeds && this.#list.embedderOf(body);
            if (embedder !== undefined) return embeds!(body, ...embedder, limits);
            taken = await this.#take(body, end.signal);
            // Who waited for a model may have left when it came.
            if (isOver) taken.release();
            return read(body, taken.model, limits);
          },
        ),
      hold: (bytes) => open?.hold(bytes),
      over: () => {
        isOver = true;
        end.over();
        open?.over();
        taken?.release();
      },
    };
    try {
      return await end.race(work(tools));
    } catch (error) {
      tools.over();
      if (!(error instanceof ClientGone)) throw error;
      record.end = "gone";
      return new Response(null, { status: clientGone });
    }
  }

  async #authorize(c: Asked, next: () => Promise<void>): Promise<void> {
    const client = await this.#keys.clientOf(c.req.header("authorization"), c.req.header("x-api-key"));
    if (client === undefined)
      throw new ApiError(401, "a valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY", {
        code: "invalid_api_key",
      });
    c.set("client", client);
    if (client.salt !== undefined) c.get("record").key = client.tenant;
    await next();
  }

  /** The model that a body asks for, once it is there. */
  async #take(body: unknown, signal: AbortSignal): Promise<TakenModel> {
    if (this.#models === undefined) return { model: this.#requireOpen()!, release: () => {} };
    const asked = (body as { readonly model?: unknown } | null)?.model;
    if (asked !== undefined && asked !== null && typeof asked !== "string")
      throw badField("model", `model: must be a name, got ${valueText(asked)}`);
    const name = this.#list.nameOf(asked ?? this.#list.names[0]);
    if (!this.#models.has(name)) throw badField("model", `model: "${name}" makes embeddings, not texts`, "unsupported");
    return this.#models.take(name, signal);
  }

  /** The model that a query names, where it is there: none is loaded to be looked at. */
  #lookedAt(c: Context<Env>): ServedModel | undefined {
    const one = this.#requireOpen();
    if (this.#models === undefined) return one;
    const name = this.#list.nameOf(c.req.query("model") ?? this.#list.names[0]);
    return this.#models.facts.find((each) => each.name === name)?.model;
  }

  /** Throws where nothing can be asked now; the one model, where there is one. */
  #requireOpen(): ServedModel | undefined {
    const { status } = this;
    const life = this.#life;
    if (status === "ready") return life?.model;
    const why = status === "draining" ? "the server is closing" : "the server is closed";
    const [told, retryAfterSeconds] =
      this.#ending === undefined && life !== undefined ? [life.reason, life.retryAfterSeconds] : [why, usualRetry];
    throw new ApiError(503, told, { code: status, retryAfterSeconds });
  }

  /** What engines are doing, by the names of their models. */
  readonly #figures = (): readonly (readonly [name: string, figures: EngineFigures])[] => {
    const all = this.#models?.facts ?? [{ name: this.#settings.model, model: this.#life?.model }];
    return all.flatMap(({ name, model }) => (model === undefined ? [] : [[name, model.engine.figures()] as const]));
  };

  #health(): Response {
    const { status } = this;
    return Response.json({ status: status === "ready" ? "ok" : status }, { status: status === "ready" ? 200 : 503 });
  }

  #routesOf(path: string): Hono<Env>["routes"] {
    return this.#app.routes.filter((route) => route.path === path && route.method !== "ALL");
  }

  #isKnown(path: string): boolean {
    return this.#routesOf(path).length > 0;
  }

  #notFound(c: Asked): Response {
    const { path, method } = c.req;
    const known = this.#routesOf(path);
    if (known.length > 0) {
      const [{ method: taken }] = known;
      const refusal = new ApiError(405, `${path} takes ${taken}, got ${method}`, { code: "method_not_allowed" });
      const response = errorResponse(refusal, path);
      response.headers.set("allow", taken);
      return response;
    }
    return errorResponse(new ApiError(404, `there is no ${path} here`, { code: "unknown_url" }), path);
  }

  async #refuse(error: Error, c: Asked): Promise<Response> {
    const told = apiErrorOf(error);
    const record = c.get("record") as RequestRecord | undefined;
    if (record !== undefined) record.error = errorText(told);
    if (told.status === 429) await this.#refusals.turn(c.get("client").tenant);
    return errorResponse(told, c.req.path);
  }
}
