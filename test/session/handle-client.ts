// A client as programs for onnxruntime write it: each run's presents are the next run's pasts, the mask grows by ones. Knows nothing of states.
import type { Session } from "../../src/session/session.js";
import type { SessionExplanation } from "../../src/session/session.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { compareViews } from "../support/compare.js";
import { int64 } from "../support/decoding.js";

/** What a run left: presents by the name of the past that they become, and how many rows they have. */
export interface Past {
  readonly tensors: Readonly<Record<string, Tensor>>;
  readonly rows: number;
}

/** What a run gave. */
export interface Step extends Past {
  readonly logits: Tensor;
}

/** What is fed beside tokens and pasts, where it is not what every client feeds. */
export interface Otherwise {
  readonly mask?: readonly number[];
  readonly positions?: readonly number[];
  readonly fetches?: readonly string[];
}

export type Runs = Extract<NonNullable<SessionExplanation["presents"]>, { kept: true }>["runs"];

export class Client {
  readonly session: Session;
  readonly logits: string;

  constructor(session: Session) {
    this.session = session;
    const presents = session.heldInputs.map(({ output }) => output);
    this.logits = session.outputNames.find((name) => !presents.includes(name))!;
  }

  /** Pasts of no rows. */
  empty(batch = 1): Past {
    const { heldInputs, inputMetadata } = this.session;
    const tensors = heldInputs.map(({ input, axis }) => {
      const { shape, type } = inputMetadata.find(({ name }) => name === input)!;
      const dims = shape.map((dim, at) => (at === axis ? 0 : at === 0 ? batch : Number(dim)));
      return [input, Tensor.fromView(View.allocate(type, dims))];
    });
    return { tensors: Object.fromEntries(tensors) as Record<string, Tensor>, rows: 0 };
  }

  feeds(tokens: readonly (readonly number[])[], past: Past, otherwise: Otherwise = {}): Record<string, Tensor> {
    const [batch, count] = [tokens.length, tokens[0].length];
    const total = past.rows + count;
    const all: Record<string, () => Tensor> = {
      input_ids: () => int64(tokens.flat(), [batch, count]),
      attention_mask: () => int64(otherwise.mask ?? new Array<number>(batch * total).fill(1), [batch, total]),
      position_ids: () =>
        int64(otherwise.positions ?? Array.from({ length: batch * count }, (_, at) => past.rows + (at % count)), [
          batch,
          count,
        ]),
      seqlens_k: () => new Tensor("int32", new Int32Array(batch).fill(total - 1), [batch]),
      total_sequence_length: () => new Tensor("int32", Int32Array.of(total), []),
    };
    const fed = this.session.inputNames.flatMap((name) => (name in all ? [[name, all[name]()]] : []));
    return { ...(Object.fromEntries(fed) as Record<string, Tensor>), ...past.tensors };
  }

  async run(tokens: readonly (readonly number[])[], past: Past, otherwise: Otherwise = {}): Promise<Step> {
    const feeds = this.feeds(tokens, past, otherwise);
    const { session } = this;
    const results = await (otherwise.fetches === undefined
      ? session.run(feeds)
      : session.run(feeds, otherwise.fetches));
    const tensors = session.heldInputs.map(({ input, output }) => [input, results[output]]);
    return {
      logits: results[this.logits],
      tensors: Object.fromEntries(tensors) as Record<string, Tensor>,
      rows: past.rows + tokens[0].length,
    };
  }

  /** How runs went, where presents are kept. */
  get runs(): Runs | undefined {
    const { presents } = this.session.explain({ json: true });
    return presents?.kept === true ? presents.runs : undefined;
  }
}

/** Pasts as a caller has them that reads all elements. */
export async function materialized({ tensors, rows }: Past): Promise<Past> {
  const read = Object.entries(tensors).map(async ([name, tensor]): Promise<[string, Tensor]> => {
    const data = (await tensor.getData()) as Float32Array;
    return [name, new Tensor(tensor.type as "float32", data.slice(), tensor.dims)];
  });
  return { tensors: Object.fromEntries(await Promise.all(read)), rows };
}

/** Where two runs differ: an empty text where they do not. */
export async function difference(actual: Step, expected: Step, tolerance: number): Promise<string> {
  const logits = compareViews(actual.logits.toView(), expected.logits.toView(), { tolerance });
  if (logits !== "") return `logits: ${logits}`;
  return pastDifference(actual, expected, tolerance);
}

export async function pastDifference(actual: Past, expected: Past, tolerance: number): Promise<string> {
  const [own, other] = [await materialized(actual), await materialized(expected)];
  for (const [name, tensor] of Object.entries(other.tensors)) {
    const present = compareViews(own.tensors[name].toView(), tensor.toView(), { tolerance });
    if (present !== "") return `${name}: ${present}`;
  }
  return "";
}
