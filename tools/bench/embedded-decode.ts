/**
 * The embedded model behind a context, token after token: insitu on a state, peers as transformers.js drives them, with each present
 * fed back as the next past. A group of the load `decode`.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CausalLM, InferenceSession } from "#insitu/entry/node.js";
import { readModel } from "#insitu/onnx/read.js";
import { writeModel } from "#insitu/onnx/write.js";
import { embeddedModel } from "#insitu/platform/embedded-model.js";
import type { Tensor } from "#insitu/tensor/tensor.js";
import { embeddedSizes } from "./client-forms.js";
import { cacheNames, cacheShape, type PastPresentForm, pastPresentForm } from "./embedded-forms.js";
import type { Contestant, Running, Setting } from "./load.js";
import type { OrtTensor, OrtTensors, Peer } from "./peers.js";
import { integers, once } from "./work.js";

/** Tokens of a context: from `first` on they are read one by one, up to `last`, and then again from `first`. */
export interface Window {
  readonly first: number;
  readonly last: number;
}

const modelPath = (): string => join(embeddedModel(), "onnx/model.onnx");
const modelBytes = once(() => new Uint8Array(readFileSync(modelPath())));

const sizesOf = once(embeddedSizes);

/** Something like a text: the same tokens for everyone. */
const tokenAt = (at: number): number => 256 + ((at * 7919) % 3500);

/** One token a call, round the window. */
async function goRound(
  window: Window,
  step: (from: number, to: number) => Promise<Float32Array>,
  back: () => void,
): Promise<Pick<Running, "run" | "result">> {
  await step(0, window.first);
  let at = window.first;
  const next = (): Promise<Float32Array> => {
    if (at === window.last) {
      back();
      at = window.first;
    }
    at++;
    return step(at - 1, at);
  };
  return {
    run: async () => void (await next()),
    result: async () => {
      back();
      at = window.first;
      return logProbabilities(await next());
    },
  };
}

/** Logits less what makes their exponentials sum to 1. */
function logProbabilities(logits: Float32Array): Float32Array {
  const most = logits.reduce((a, b) => Math.max(a, b));
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
  return logits.map((logit) => logit - most - Math.log(sum));
}

type Values = readonly (readonly [name: string, type: "int32" | "int64", values: readonly number[], dims: number[]])[];

const upTo = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);

/** What every form is fed: tokens and positions. */
const tokensFrom = (from: number, to: number): Values => [
  ["input_ids", "int64", upTo(from, to).map(tokenAt), [1, to - from]],
  ["position_ids", "int64", upTo(from, to), [1, to - from]],
];

/** What says where rows are written. */
const rowsFrom = (from: number, to: number): Values => [
  ["write_indices", "int64", [from], [1]],
  ["nonpad_kv_seqlen", "int64", [to], [1]],
];

const tensors = (values: Values): Record<string, Tensor> =>
  Object.fromEntries(values.map(([name, type, data, dims]) => [name, integers(type, data, dims)]));

/** insitu: the file as it is, caches in a state. */
export const byInsitu = (window: Window, { backend, threads }: Setting): Contestant => ({
  name: "insitu, caches in a state",
  runtime: "insitu",
  async start() {
    const options = { inPlace: "require", threads, ...(backend === undefined ? {} : { backend }) } as const;
    const session = await InferenceSession.create(modelPath(), options);
    const state = session.createState({ dims: { batch: 1, capacity: window.last } });
    let target: Tensor | null = null;
    const step = async (from: number, to: number): Promise<Float32Array> => {
      const into = to - from === 1 ? target : null;
      const { logits } = await session.run(tensors(tokensFrom(from, to)), { logits: into }, { state });
      if (to - from === 1) target = logits;
      return logits.data as Float32Array;
    };
    const running = await goRound(window, step, () => state.rewind(window.first));
    return { ...running, stop: () => session.release() };
  },
});

/** insitu with everything around it: choosing tokens, the tokenizer, text as it comes. */
export const byText = (window: Window, { backend, threads }: Setting): Contestant => ({
  name: "insitu, text by CausalLM.generate",
  runtime: "insitu",
  async start() {
    const lm = await CausalLM.load(undefined, { threads, ...(backend === undefined ? {} : { backend }) });
    const prompt = upTo(0, window.first + 1).map(tokenAt);
    const greedy = { temperature: 0, ignoreEnd: true } as const;
    const begin = () =>
      lm.generate(prompt, { ...greedy, maxTokens: window.last - window.first })[Symbol.asyncIterator]();
    let text = begin();
    return {
      run: async () => {
        if ((await text.next()).done !== true) return;
        text = begin();
        await text.next();
      },
      result: async () => {
        const all = new Float32Array(sizesOf().vocabulary);
        for await (const { top = [] } of lm.generate(prompt, { ...greedy, maxTokens: 1, logprobs: all.length }))
          for (const { token, logprob } of top) all[token] = logprob;
        return all;
      },
      stop: () => lm.release(),
    };
  },
});

/** A form of the model that peers run: which file, and what it is fed beside tokens and caches. */
export interface PeerForm {
  readonly name: string;
  readonly model: () => Uint8Array;
  /** Caches before the first token. */
  readonly shape: readonly number[];
  readonly feeds: (from: number, to: number) => Values;
}

const formOf = (form: PastPresentForm): PeerForm => ({
  name: `${form}, past fed, present fetched`,
  model: once(() => writeModel(pastPresentForm(readModel(modelBytes()), sizesOf(), form))),
  shape: cacheShape(0, sizesOf(), form === "GroupQueryAttention"),
  feeds: (from, to) =>
    form === "Concat"
      ? tokensFrom(from, to)
      : [
          ...tokensFrom(from, to).slice(0, 1),
          ["seqlens_k", "int32", [to - 1], [1]],
          ["total_sequence_length", "int32", [to], []],
        ],
});

/** The forms that peers are measured in: the two that past and present have, and the very file that insitu runs. */
export const peerForms = (window: Window): readonly [grouped: PeerForm, joined: PeerForm, same: PeerForm] => [
  formOf("GroupQueryAttention"),
  formOf("Concat"),
  {
    name: "the same file, caches fed and fetched",
    model: modelBytes,
    shape: cacheShape(window.last, sizesOf(), false),
    feeds: (from, to) => [...tokensFrom(from, to), ...rowsFrom(from, to)],
  },
];

/** A peer: each present is the next past. */
export const byPeer = (window: Window, peer: Peer, form: PeerForm): Contestant => ({
  name: `${peer.name}, ${form.name}`,
  runtime: peer.name,
  async start() {
    const session = await peer.session(form.model());
    const names = cacheNames("past_key_values", sizesOf());
    const size = form.shape.reduce((product, dim) => product * dim, 1);
    let past: OrtTensors = Object.fromEntries(
      names.map((name) => [name, peer.tensor("float32", new Float32Array(size), form.shape)]),
    );
    let before = past;
    const step = async (from: number, to: number): Promise<Float32Array> => {
      const fed = form
        .feeds(from, to)
        .map(([name, type, data, dims]): [string, OrtTensor] => [
          name,
          peer.tensor(type, integers(type, data, dims).data as ArrayBufferView, dims),
        ]);
      const results = await session.run({ ...Object.fromEntries(fed), ...past });
      past = Object.fromEntries(names.map((name) => [name, results[name.replace("past_key_values", "present")]]));
      if (to === window.first) before = past;
      return results["logits"].data as Float32Array;
    };
    const running = await goRound(window, step, () => (past = before));
    return { ...running, stop: () => session.release() };
  },
});
