// transformers.js, unchanged, on insitu beside the same program on onnxruntime-node: each in a process of its own, and both say the same. A few
// models here, on files that are installed for onnxruntime; in the soak all of them, in a project whose package.json has the one override.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exportedEncoder, smallExportedSizes } from "../../tools/demo/exported-encoder.js";
import { CausalLM } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { embeddedModel } from "../../src/platform/embedded-model.js";
import type { SessionExplanation } from "../../src/session/session.js";
import { exportedDecoders, exportedTolerance } from "../support/exported-decoders.js";
import { sizesConfig, writeEmbedded, writeEncoderDecoder, writeExported, writeFolder } from "./folders.js";
import {
  type Client,
  type ClientProject,
  installClient,
  missing,
  onInsitu,
  onOnnxruntime,
  peers,
  runClient,
} from "./project.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const sampled = ["llama_op20_eager", "gemma3_op18_sdpa"];
const exported = exportedDecoders.filter((name) => (soak ? !name.includes("static") : sampled.includes(name)));

/** What generate.mjs prints for a model. */
interface Told {
  readonly told: Readonly<Record<string, unknown>> & { readonly sums: readonly number[] };
  readonly presents?: SessionExplanation["presents"];
}

if (missing !== undefined) console.log(`transformers.js is not tried: ${missing}`);

describe.skipIf(missing !== undefined)("transformers.js", () => {
  let folder = "";
  let project: ClientProject | undefined;
  let ours: Client = onInsitu;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "insitu-models-"));
    for (const name of exported) writeExported(folder, name);
    if (soak) {
      writeEmbedded(folder, "embedded_grouped", "GroupQueryAttention", 0);
      writeEmbedded(folder, "embedded_concat", "Concat", 0);
    }
    const { layers, heads, headSize, vocabulary } = smallExportedSizes;
    const config = { model_type: "bert", ...sizesConfig(layers, heads, heads, heads * headSize) };
    writeFolder(join(folder, "bert"), { config, files: { model: writeModel(exportedEncoder()) } }, vocabulary);
    writeEncoderDecoder(folder, "t5");
    writeEncoderDecoder(folder, "whisper");
    if (!soak) return;
    project = installClient();
    ours = { project: project.folder, standsIn: false };
  });
  afterAll(() => {
    project?.remove();
    rmSync(folder, { recursive: true });
  });

  test("generates the same text as on onnxruntime-node, in every way it has, with presents that stay inside", () => {
    const names = [...exported, ...(soak ? ["embedded_grouped", "embedded_concat"] : [])];
    const [own, other] = [ours, onOnnxruntime].map((client) =>
      runClient<Record<string, Told>>(client, "generate.mjs", folder, ...names),
    );
    for (const name of names) {
      const { sums, ...said } = own[name].told;
      const { sums: otherSums, ...otherSaid } = other[name].told;
      expect(said, name).toEqual(otherSaid);
      const tolerance = exportedTolerance(name);
      for (const [at, sum] of sums.entries())
        expect(Math.abs(sum - otherSums[at]), `${name}, output ${at}`).toBeLessThan(tolerance * otherSums[at]);
      // Only what was padded is moved, once.
      expect(own[name].presents, name).toMatchObject({ kept: true, runs: { forked: 0 } });
      const {
        imported = 0,
        copied = 0,
        continued = 0,
      } = own[name].presents?.kept === true ? own[name].presents.runs : {};
      expect(imported, name).toBeLessThanOrEqual(1);
      expect(copied, name).toBe(imported === 1 ? 1 : 16);
      expect(continued, name).toBeGreaterThan(80);
      expect(other[name].presents).toBeUndefined();
    }
    console.log(`transformers.js: ${names.length} decoders say the same on insitu and on onnxruntime-node`);
  });

  test("runs encoder-decoders as on onnxruntime-node: text to text, and sound to text", () => {
    type Translated = { readonly told: unknown; readonly presents: readonly SessionExplanation["presents"][] };
    const [own, other] = [ours, onOnnxruntime].map((client) => runClient<Translated>(client, "translate.mjs", folder));
    expect(own.told).toEqual(other.told);
    // The first run of a text makes the encoder's rows, the second takes its own in.
    expect(own.presents[0]).toMatchObject({ kept: true, runs: { copied: 2, imported: 2, continued: 28 } });
    expect(own.presents[1]).toMatchObject({ kept: true, runs: { copied: 1, imported: 1, continued: 18 } });
  });

  test("the recipe for Node without an installation", () => {
    const place = join(folder, "recipe");
    mkdirSync(join(place, "node_modules/@huggingface"), { recursive: true });
    symlinkSync(root, join(place, "node_modules/insitu"));
    symlinkSync(
      join(peers, "node_modules/@huggingface/transformers"),
      join(place, "node_modules/@huggingface/transformers"),
    );
    symlinkSync(join(folder, exported[0]), join(place, "model"));
    const page = readFileSync(join(root, "docs/onnxruntime.md"), "utf8");
    const code = [...page.matchAll(/```js\n(.*?)```/gs)].map(([, text]) => text);
    const [own, call] = ["import * as onnxruntime", "import { pipeline }"].map((start) =>
      code.find((text) => text.startsWith(start))!,
    );
    // How the pipeline is called, from the recipe before it.
    const said = call.trimEnd().split("\n").at(-1)!.replace("Once upon a time", "w5 w17 w3");
    const main = join(place, "main.mjs");
    writeFileSync(main, `${own}${said}\nconsole.log(generated_text, generator.model.sessions.model.backend);`);
    const { stdout, stderr } = spawnSync(process.execPath, [main], { cwd: place, encoding: "utf8" });
    expect(stderr).toBe("");
    expect(stdout).toMatch(/^w5 w17 w3( w\d+)+ wasm\n$/);
  });

  test("the README's program, with the package's own model: the text that CausalLM makes of it", async () => {
    const place = join(folder, "readme");
    cpSync(embeddedModel(), join(place, "model"), { recursive: true });
    const made = spawnSync(process.execPath, [
      join(root, "training/hub-folder.mjs"),
      join(place, "hub"),
      "--variants",
      "q8,fp32",
    ]);
    expect(String(made.stderr)).toBe("");
    const page = readFileSync(join(root, "README.md"), "utf8");
    const program = [...page.matchAll(/```js\n(.*?)```/gs)]
      .map(([, text]) => text)
      .find((text) => text.includes("pipeline"))!;
    const run = (changes: readonly (readonly [string, string])[]): string => {
      const client = join(ours.project, "node_modules/@huggingface/transformers/dist/transformers.node.mjs");
      let text = program.replace('"@huggingface/transformers"', JSON.stringify(pathToFileURL(client).href));
      for (const [from, to] of changes) {
        expect(text).toContain(from);
        text = text.replace(from, to);
      }
      const main = join(place, "main.mjs");
      writeFileSync(main, text);
      const hook = ours.standsIn ? ["--require", join(root, "test/clients/stand-in.cjs")] : [];
      const { stdout, stderr } = spawnSync(process.execPath, [...hook, main], { cwd: place, encoding: "utf8" });
      expect(stderr).toBe("");
      return stdout;
    };
    // As it is printed, it draws; greedily it says what CausalLM says.
    expect(run([])).toMatch(/generated_text: .Once upon a time/);
    const greedy = ["max_new_tokens: 32", "max_new_tokens: 32, do_sample: false"] as const;
    const lm = await CausalLM.load(join(place, "model"));
    const settings = JSON.parse(readFileSync(join(place, "model/generation_config.json"), "utf8")) as Record<
      string,
      number
    >;
    const told = { maxTokens: 32, temperature: 0, repetitionPenalty: settings["repetition_penalty"] };
    const wanted = await lm.generate("Once upon a time", told).text();
    const copied = ['dtype: "fp32"', 'dtype: "fp32", session_options: { presents: "copy" }'] as const;
    const said = JSON.stringify([{ generated_text: `Once upon a time${wanted}` }]);
    const asJson = ["console.log(await", "console.log(JSON.stringify(await"] as const;
    const closed = ["}));", "})));"] as const;
    for (const changes of [[], [copied], [['"./model"', '"./hub"'] as const, ['"fp32"', '"q8"'] as const]])
      expect(run([greedy, asJson, closed, ...changes]).trim()).toBe(said);
    expect(run([greedy, ['"./model"', '"./hub"']])).toMatch(/generated_text: .Once upon a time/);
    await lm.release();
  });

  test("embeds sentences as on onnxruntime-node", () => {
    type Embedded = Record<string, { readonly dims: readonly number[]; readonly list: readonly number[] }[]>;
    const [own, other] = [ours, onOnnxruntime].map((client) =>
      runClient<Embedded>(client, "encode.mjs", folder, "bert"),
    );
    for (const [at, { dims, list }] of own["bert"].entries()) {
      expect(dims).toEqual(other["bert"][at].dims);
      for (const [index, element] of list.entries()) expect(element).toBeCloseTo(other["bert"][at].list[index], 4);
    }
  });
});
