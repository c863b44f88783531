/** A request for texts, from what was read of it to its answer: begun on the engine, heard to the end, cancelled if nobody is there any more. */
import { EventStream, type StreamLoss } from "./event-stream.js";
import type { Client } from "./keys.js";
import type { Metrics } from "./metrics.js";
import type { ServerLimits } from "./options.js";
import { ClientGone, clientGone } from "./request-end.js";
import type { RequestRecord } from "./request-record.js";
import { type GroupListener, TextGroup, type TokenWatch } from "./text-group.js";
import { ApiError, apiErrorOf, errorText } from "./wire/api-error.js";
import { dataEvent, sentEvents } from "./wire/answer.js";
import { newId } from "./wire/identity.js";
import type { Prepared } from "./wire/prepared.js";
import type { ServedModel } from "./wire/served-model.js";
import type { Usage } from "./wire/text-event.js";

/** What an answer is made with. */
export interface AnswerTools {
  readonly model: ServedModel;
  readonly metrics: Metrics;
  readonly limits: ServerLimits;
  readonly client: Client;
  readonly record: RequestRecord;
  /** Aborted when the request has to end. */
  readonly signal: AbortSignal;
  /** Has the request hold bytes until it is over; throws where all requests hold too many. */
  readonly hold: (bytes: number) => void;
  /** Called once, when the request needs nothing any more. */
  readonly over: () => void;
}

const noUsage: Usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };

/** Texts that can be begun. */
type ReadyTexts = Omit<Prepared, "shown">;

/** Bytes that one entry of a map takes. */
const entryBytes = 64;

/** Bytes that a request holds beside its tokens while its texts wait and are made. */
function heldBytes({ asks: [{ stop = [], logitBias }], answer }: ReadyTexts): number {
  const stops = stop.reduce((sum, { length }) => sum + length, 0);
  return stops + (logitBias?.size ?? 0) * entryBytes + answer.heldBytes;
}

/** Answers with texts. Throws for texts that the engine does not take, and with the reason of a signal that ends the request; nothing is left behind. */
export async function answerTexts(prepared: ReadyTexts, tools: AnswerTools): Promise<Response> {
  if (prepared.asks.length === 0) {
    tools.over();
    return Response.json(prepared.answer.body(noUsage));
  }
  try {
    tools.signal.throwIfAborted();
    tools.hold(heldBytes(prepared));
  } catch (error) {
    for (const { constraint } of prepared.asks) constraint?.release();
    throw error;
  }
  return prepared.stream ? streamed(prepared, tools) : whole(prepared, tools);
}

/** Begins the texts. */
function begin(prepared: ReadyTexts, tools: AnswerTools, listener: GroupListener): { readonly stop: () => void } {
  const { model, metrics, client, record } = tools;
  const watch = (): TokenWatch => {
    const measured = metrics.watch(record.came, model.name);
    return {
      ...measured,
      first: () => {
        record.firstToken ??= performance.now();
        measured.first();
      },
    };
  };
  let open = true;
  const finish = (): boolean => {
    if (!open) return false;
    open = false;
    record.usage = group.usage;
    tools.over();
    return true;
  };
  const group = new TextGroup(
    prepared.asks,
    { id: newId("text-"), ...client, priority: prepared.priority },
    { engine: model.engine, decoder: model.lm.tokenizer, watch, markers: model.markers },
    {
      event(index, event) {
        if (event.kind === "finish") record.end ??= event.reason;
        listener.event(index, event);
      },
      done(usage) {
        if (finish()) listener.done(usage);
      },
      failed(error) {
        if (finish()) listener.failed(error);
      },
    },
  );
  return {
    stop() {
      group.cancel();
      finish();
    },
  };
}

function whole(prepared: ReadyTexts, tools: AnswerTools): Promise<Response> {
  const { answer } = prepared;
  const { signal } = tools;
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      signal.removeEventListener("abort", left);
      running.stop();
      reject(apiErrorOf(error));
    };
    const said = (say: () => void): void => {
      try {
        say();
      } catch (error) {
        fail(error);
      }
    };
    const running = begin(prepared, tools, {
      event: (index, event) => said(() => void answer.event(index, event)),
      done: (usage) =>
        said(() => {
          resolve(Response.json(answer.body(usage)));
          signal.removeEventListener("abort", left);
        }),
      failed: fail,
    });
    const left = (): void => {
      running.stop();
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", left, { once: true });
  });
}

function streamed(prepared: ReadyTexts, tools: AnswerTools): Response {
  const { answer } = prepared;
  const { form = sentEvents } = answer;
  const { record, metrics, limits, signal } = tools;
  record.streams = true;
  const close = (status: number): void => {
    signal.removeEventListener("abort", ended);
    stream.close();
    record.tell(status);
  };
  /** Says last what went wrong, in the answer's own words where it has any. */
  const fail = (error: unknown): void => {
    running?.stop();
    const told = apiErrorOf(error);
    record.error ??= errorText(told);
    try {
      stream.send(answer.failed(told));
    } catch {
      stream.send([dataEvent(told.body)]);
    }
    close(told.status);
  };
  const said = (say: () => void): void => {
    try {
      say();
    } catch (error) {
      fail(error);
    }
  };
  const lose = (loss: StreamLoss): void => {
    running?.stop();
    record.end = loss;
    metrics.lost(loss);
    if (loss === "slow") fail(tooSlow());
    else close(clientGone);
  };
  const ended = (): void => (signal.reason instanceof ClientGone ? lose("gone") : fail(signal.reason));
  const stream = new EventStream(limits.waitingBytes, form, lose);
  let running: { readonly stop: () => void } | undefined;
  try {
    stream.send(answer.begin());
    running = begin(prepared, tools, {
      event: (index, event) => said(() => stream.send(answer.event(index, event))),
      done: (usage) =>
        said(() => {
          stream.send(answer.end(usage));
          close(200);
        }),
      failed: fail,
    });
  } catch (error) {
    record.streams = false;
    stream.close();
    throw error;
  }
  signal.addEventListener("abort", ended, { once: true });
  return new Response(stream.readable, {
    headers: {
      "content-type": form.contentType,
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    },
  });
}

/** What a reader finds behind what it has not read. */
const tooSlow = (): ApiError =>
  new ApiError(clientGone, "the stream was not read for a time and is cut here", { code: "slow_reader" });
