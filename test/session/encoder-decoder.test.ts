// Encoder-decoders as Optimum writes them, run as transformers.js runs them: the merged decoder with presents that stay inside beside the separate
// files on the reference implementation, whose caches are carried by hand.
import { describe, expect, test } from "vitest";
import { type EncoderDecoderFiles, exportedEncoderDecoder } from "../../tools/demo/exported-encoder-decoder.js";
import { t5Style } from "../../tools/demo/t5-style.js";
import { whisperStyle } from "../../tools/demo/whisper-style.js";
import { backends } from "../../src/entry/backends.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { Session } from "../../src/session/session.js";
import { nodePlatform } from "../../src/platform/node.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { compareViews } from "../support/compare.js";
import { int64 } from "../support/decoding.js";
import { opaqueBackend } from "../support/opaque-backend.js";
import { soak } from "../support/soak.js";

type Tensors = Record<string, Tensor>;
type File = keyof EncoderDecoderFiles;

const styles = { t5: t5Style(), whisper: whisperStyle() } as const;

/** Presents under the names of the pasts that they become; the encoder's stay as they were. */
function pastsOf(results: Tensors, before: Tensors = {}): Tensors {
  const presents = Object.entries(results).filter(([name]) => name.startsWith("present"));
  return Object.fromEntries(
    presents.map(([name, tensor]) => {
      const past = name.replace("present", "past_key_values");
      return [past, name.includes("encoder") ? (before[past] ?? tensor) : tensor];
    }),
  );
}

const onHost = async (tensor: Tensor): Promise<Tensor> => new Tensor(tensor.type, await tensor.getData(), tensor.dims);

const picked = ({ inputNames }: Session, feeds: Tensors): Tensors =>
  Object.fromEntries(inputNames.map((name) => [name, feeds[name]]));

/** With a device whose memory nobody can look into, and WebGPU in a soak. */
class TestedSession extends Session {
  static async create(source: Uint8Array, options?: object): Promise<TestedSession> {
    const choices = [{ name: "opaque", load: async () => opaqueBackend }, ...backends];
    return new TestedSession(await Session.prepare(source, nodePlatform, choices, options));
  }
}
const hasWebgpu = soak && noWebgpu === undefined;
const tried = (["t5", "whisper"] as const).flatMap((name) =>
  ["wasm", "opaque", ...(hasWebgpu ? ["webgpu"] : [])].map((backend) => ({ name, backend })),
);

describe.each(tried)("$name on $backend", ({ name, backend }) => {
  const style = styles[name];
  const files = exportedEncoderDecoder(style);
  const open = (file: File, options: object = {}): Promise<Session> =>
    TestedSession.create(writeModel(files[file]), options);

  test("the merged decoder says what the separate ones say", async () => {
    const { heads, headSize } = style.sizes;
    const slow = { backend: "reference", graphOptimizationLevel: "disabled", presents: "copy" } as const;
    const [encoder, first, next] = await Promise.all([
      open("encoder_model", slow),
      open("decoder_model", slow),
      open("decoder_with_past_model", slow),
    ]);
    const merged = await open("decoder_model_merged", { presents: "keep", backend });
    const waves = Float32Array.from({ length: 480 }, (_, at) => Math.sin(at * 0.7) + Math.cos(at * 0.13));
    const mask = int64([1, 1, 1, 1, 1, 1, 1, 0, 0, 0], [2, 5]);
    const given: Tensors =
      name === "t5"
        ? { input_ids: int64([5, 17, 3, 40, 8, 9, 2, 0, 0, 0], [2, 5]), attention_mask: mask }
        : { input_features: new Tensor("float32", waves, [1, 8, 60]) };
    const batch = name === "t5" ? 2 : 1;
    const { last_hidden_state: states } = await encoder.run(given);
    const beside: Tensors = {
      encoder_hidden_states: states,
      ...(name === "t5" ? { encoder_attention_mask: mask } : {}),
    };
    const nothing = Object.fromEntries(
      merged.inputNames
        .filter((input) => input.startsWith("past"))
        .map((input) => [input, new Tensor("float32", new Float32Array(0), [batch, heads, 0, headSize])]),
    );
    let [ours, theirs]: Tensors[] = [nothing, {}];
    // Past the distance from which on all are in one bucket.
    const count = name === "t5" && backend === "wasm" ? 40 : 12;
    for (let at = 0; at < count; at++) {
      const isFirst = at === 0;
      const tokens = int64(
        Array.from({ length: batch }, (_, sample) => (7 * at + 3 * sample) % 90),
        [batch, 1],
      );
      const branch = new Tensor("bool", Uint8Array.of(Number(!isFirst)), [1]);
      const own = await merged.run({ ...beside, ...ours, input_ids: tokens, use_cache_branch: branch });
      const session = isFirst ? first : next;
      const expected = await session.run(picked(session, { ...beside, ...theirs, input_ids: tokens }));
      const told = compareViews(own["logits"].toView(), expected["logits"].toView(), { tolerance: 1e-4 });
      expect(told, `token ${at}`).toBe("");
      ours = pastsOf(own, isFirst ? {} : ours);
      theirs = { ...theirs, ...pastsOf(expected) };
    }
    const { presents } = merged.explain({ json: true });
    expect(presents).toMatchObject({
      kept: true,
      runs: { started: 0, copied: 1, imported: 1, continued: count - 2, forked: 0 },
    });
    // The encoder's rows are read where they lie.
    expect(presents?.kept === true && presents.brought).toEqual(
      expect.not.arrayContaining([expect.stringContaining(".encoder.")]),
    );
    const checkPasts = async (): Promise<void> => {
      for (const [past, tensor] of Object.entries(theirs))
        expect(compareViews((await onHost(ours[past])).toView(), tensor.toView(), { tolerance: 1e-4 }), past).toBe("");
    };
    await checkPasts();
    // All of them outlive their session.
    await merged.release();
    await checkPasts();
    for (const tensor of Object.values(ours)) expect(tensor.location).toBe("cpu");
  });
});

test("the encoder's rows are the caller's where their array is read, and are given back", async () => {
  const style = styles.whisper;
  const { heads, headSize, layers } = style.sizes;
  const bytes = writeModel(exportedEncoderDecoder(style).decoder_model_merged);
  const [ours, theirs] = [
    await InferenceSession.create(bytes, { presents: "keep" }),
    await InferenceSession.create(bytes, { backend: "reference", presents: "copy" }),
  ];
  const held = (): number => {
    const { presents } = ours.explain({ json: true });
    return presents?.kept === true ? presents.runs.heldBytes : NaN;
  };
  const waves = Float32Array.from({ length: 30 * heads * headSize }, (_, at) => Math.sin(at * 0.3));
  const feeds = (token: number, pasts: Tensors, continues: boolean): Tensors => ({
    encoder_hidden_states: new Tensor("float32", waves, [1, 30, heads * headSize]),
    input_ids: int64([token], [1, 1]),
    use_cache_branch: new Tensor("bool", Uint8Array.of(Number(continues)), [1]),
    ...pasts,
  });
  const nothing = Object.fromEntries(
    ours.inputNames
      .filter((input) => input.startsWith("past"))
      .map((input) => [input, new Tensor("float32", new Float32Array(0), [1, heads, 0, headSize])]),
  );
  const [own, other] = [await ours.run(feeds(3, nothing, false)), await theirs.run(feeds(3, nothing, false))];
  expect(held()).toBe(2 * layers * 30 * heads * headSize * 4);
  const name = "past_key_values.0.encoder.key";
  const [pasts, expected] = [pastsOf(own), pastsOf(other)];
  // One element for both, before the next run and between two more.
  for (const value of [2, -3]) {
    for (const { [name]: tensor } of [pasts, expected]) (tensor.data as Float32Array)[5] = value;
    const [a, b] = [await ours.run(feeds(7, pasts, true)), await theirs.run(feeds(7, expected, true))];
    expect(compareViews(a["logits"].toView(), b["logits"].toView(), { tolerance: 1e-4 })).toBe("");
  }
  // Many others later, its rows are the host's and still the same.
  const soFar = held();
  for (let text = 0; text < 20; text++) await ours.run(feeds(text, nothing, false));
  expect(held()).toBe(soFar + 15 * 2 * layers * 30 * heads * headSize * 4);
  const [late, expectedLate] = [await ours.run(feeds(9, pasts, true)), await theirs.run(feeds(9, expected, true))];
  expect(compareViews(late["logits"].toView(), expectedLate["logits"].toView(), { tolerance: 1e-4 })).toBe("");
  const [fresh] = [pastsOf(await ours.run(feeds(3, nothing, false)))];
  const before = held();
  const still = fresh["past_key_values.1.encoder.value"];
  still.dispose();
  expect(held()).toBe(before - 30 * heads * headSize * 4);
  await expect(ours.run(feeds(7, fresh, true))).rejects.toThrow(/was disposed/);
});
