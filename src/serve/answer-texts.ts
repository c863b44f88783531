/** A request for texts, from what was read of it to its answer: begun on the engine, heard to the end, cancelled if nobody is there any more. */
import { EventStream, type StreamLoss } from "./event-stream.js";
import type { Client } from "./keys.js";
import type { Metrics } from "./metrics.js";
import type { ServerLimits } from "./options.js";
import type { RequestRecord } from "./request-record.js";
import { type GroupListener, TextGroup, type TokenWatch } from "./text-group.js";
import { ApiError, apiErrorOf, errorText } from "./wire/api-error.js";
import { newId } from "./wire/identity.js";
import type { Prepared } from "./wire/prepared.js";
import type { ServedModel } from "./wire/served-model.js";

/** What an answer is made with. */
export interface AnswerTools {
  readonly model: ServedModel;
  readonly metrics: Metrics;
  readonly limits: ServerLimits;
  readonly client: Client;
  readonly record: RequestRecord;
  /** Called once, when the request needs nothing any more. */
  readonly over: () => void;
}

/** The status that nobody reads: the client has left. */
export const clientGone = 499;

/** What a request is told that took too long. */
export const tooLate = (seconds: number): ApiError =>
  new ApiError(504, `the request took longer than ${seconds} seconds`, { code: "timeout" });

/** Seconds as timers take them. */
export const timerOf = (seconds: number): number => Math.min(seconds * 1000, 2 ** 31 - 1);

/** Answers with texts. Throws for texts that the engine does not take, with nothing left behind. */
export async function answerTexts(prepared: Prepared, signal: AbortSignal, tools: AnswerTools): Promise<Response> {
  if (signal.aborted) {
    for (const { constraint } of prepared.asks) constraint?.release();
    tools.record.end = "gone";
    tools.over();
    return new Response(null, { status: clientGone });
  }
  return prepared.stream ? streamed(prepared, signal, tools) : whole(prepared, signal, tools);
}

/** Begins the texts; a timer ends them that take too long. */
function begin(prepared: Prepared, tools: AnswerTools, listener: GroupListener): { readonly stop: () => void } {
  const { model, metrics, limits, client, record } = tools;
  const watch = (): TokenWatch => {
    const measured = metrics.watch(record.came);
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
    clearTimeout(timer);
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
  const timer = setTimeout(() => {
    group.cancel();
    if (finish()) listener.failed(tooLate(limits.seconds));
  }, timerOf(limits.seconds));
  return {
    stop() {
      group.cancel();
      finish();
    },
  };
}

function whole(prepared: Prepared, signal: AbortSignal, tools: AnswerTools): Promise<Response> {
  const { answer } = prepared;
  return new Promise((resolve, reject) => {
    const running = begin(prepared, tools, {
      event: (index, event) => void answer.event(index, event),
      done(usage) {
        signal.removeEventListener("abort", left);
        resolve(Response.json(answer.body(usage)));
      },
      failed(error) {
        signal.removeEventListener("abort", left);
        reject(apiErrorOf(error));
      },
    });
    const left = (): void => {
      running.stop();
      tools.record.end = "gone";
      resolve(new Response(null, { status: clientGone }));
    };
    signal.addEventListener("abort", left, { once: true });
  });
}

function streamed(prepared: Prepared, signal: AbortSignal, tools: AnswerTools): Response {
  const { answer } = prepared;
  const { record, metrics, limits } = tools;
  record.streams = true;
  const close = (status: number): void => {
    signal.removeEventListener("abort", gone);
    stream.close();
    record.tell(status);
  };
  const lose = (loss: StreamLoss): void => {
    running?.stop();
    record.end = loss;
    metrics.lost(loss);
    close(clientGone);
  };
  const gone = (): void => lose("gone");
  const stream = new EventStream(limits.waitingBytes, lose);
  let running: { readonly stop: () => void } | undefined;
  try {
    stream.send(answer.begin());
    running = begin(prepared, tools, {
      event: (index, event) => stream.send(answer.event(index, event)),
      done(usage) {
        stream.send(answer.end(usage));
        close(200);
      },
      failed(error) {
        const told = apiErrorOf(error);
        record.error = errorText(told);
        stream.send(answer.failed(told));
        close(told.status);
      },
    });
  } catch (error) {
    record.streams = false;
    stream.close();
    throw error;
  }
  signal.addEventListener("abort", gone, { once: true });
  return new Response(stream.readable, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    },
  });
}
