// Writes docs/models.md: the catalogue, and what the publishers' own files do here, each loaded, checked and made to tell twelve tokens.
// `node scripts/models-page.mjs` after a build; the tests check that the file is up to date.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { readArchive } from "./archive.mjs";

const path = fileURLToPath(new URL("../docs/models.md", import.meta.url));
const archive = (name) => readArchive(fileURLToPath(new URL(`../test/models/${name}.tar.br`, import.meta.url)));

const sizeText = (bytes) => (bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);
const variantText = ({ name, bytes, approximate }) => `${name} ${approximate ? "~" : ""}${sizeText(bytes)}`;

/** What the files below are called where a model's configuration calls its architecture otherwise. */
const otherNames = {
  gemma3_text: "gemma3",
  qwen3_5: "qwen35",
  gpt_oss: "gptoss",
  phi3: "phi3-long",
};

/** The models that have a short name; `tested` are the architectures of the files below. */
const byName = (catalogue, tested) => [
  "| short name | on the hub, with sources | variants | licence | context | can | architecture |",
  "|---|---|---|---|---:|---|---|",
  ...catalogue.map((model) => {
    const can = [...(model.tools ? ["tools"] : []), ...(model.thinking ? ["thinking"] : [])].join(", ");
    const sources = model.sources.map((source, at) => `[${at + 1}](${source})`).join(" ");
    const { architecture } = model;
    const isTested = tested.has(architecture) || tested.has(otherNames[architecture]);
    const told = isTested ? `${architecture}: tested` : `${architecture}: not tested`;
    return `| \`${model.name}\` | ${model.repository} ${sources} | ${model.variants.map(variantText).join(",<br>")} | ${model.licence} | ${model.context} | ${can} | ${told} |`;
  }),
];

/** Files written to a folder of their own while `use` looks at it. */
async function withFolder(files, use) {
  const folder = mkdtempSync(join(tmpdir(), "insitu-page-"));
  try {
    for (const [name, bytes] of files) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), bytes);
    }
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const logprobs = (logits) => {
  const most = Math.max(...logits);
  const sum = Math.log(logits.reduce((all, logit) => all + Math.exp(logit - most), 0)) + most;
  return logits.map((logit) => logit - sum);
};

/** How far a log-probability may be from onnxruntime's, as the tests have it: another provider's file multiplies otherwise. */
const farthest = 0.1;

/** True if each token is one that onnxruntime would take, or as good as it. */
function isSameText(steps, answers) {
  for (const [at, { token, logprob }] of steps.entries()) {
    const wanted = logprobs(answers.steps[at]);
    const best = Math.max(...wanted);
    if (Math.abs(logprob - wanted[token]) > farthest || best - wanted[token] > 2 * farthest) return false;
    // Two tokens as likely as each other: from here on the texts differ.
    if (wanted[token] < best) return true;
  }
  return true;
}

/** Whose text a folder tells, on linear caches or on pages. */
async function textOf(CausalLM, folder, answers, cache) {
  const lm = await CausalLM.load(folder, { threads: 1, cache });
  const steps = [];
  const options = { maxTokens: answers.steps.length, temperature: 0, ignoreEnd: true, logprobs: true };
  for await (const step of lm.generate(answers.prompt, options)) steps.push(step);
  await lm.release();
  return isSameText(steps, answers);
}

const yes = (verdict) => (verdict?.possible ? "yes" : "no");

/** What a reason says first: whole sentences of it are in what `insitu check` prints. */
const short = (reason) => reason.replace(/"[^"]*\/[^"]*"/g, "…").split(/[;:] /)[0];

/** The columns of a report that every row has. */
function reportColumns({ problems, caches, pages, drawsOnDevice, kernels = [] }) {
  const slow = kernels.flatMap(({ backend, reference }) =>
    reference
      .filter(({ reason }) => !/on the host|is no type of shaders/.test(reason))
      .map(({ operator }) => `${operator} on ${backend}`),
  );
  const missing = [
    ...problems.map(short),
    ...(pages?.possible === false ? [`pages: ${short(pages.reason)}`] : []),
    ...(slow.length === 0 ? [] : [`kernels: ${[...new Set(slow)].join(", ")}`]),
  ];
  const inPlace = caches === undefined ? "" : `${caches.inPlace} of ${caches.count}`;
  return `${inPlace} | ${yes(pages)} | ${yes(drawsOnDevice)} | ${missing.join("; ").replaceAll("|", "\\|")} |`;
}

/** Rows of the folders that onnxruntime-genai's builder wrote. */
async function builderRows({ CausalLM, openChecked, checkModel }) {
  const files = new Map([...archive("published"), ...archive("published-hybrids")]);
  const folders = [...new Set([...files.keys()].map((each) => each.split("/")[0]))].sort((a, b) => (a < b ? -1 : 1));
  const answersOf = (folder) => {
    const bytes = files.get(`${folder}/answers.json`);
    return bytes && JSON.parse(new TextDecoder().decode(bytes));
  };
  const rows = [];
  for (const folder of folders) {
    const [, architecture, form] = /^(.*?)-((?:int|fp|f)\d.*)$/.exec(folder) ?? [undefined, folder, ""];
    const own = [...files].flatMap(([each, bytes]) =>
      each.startsWith(`${folder}/`) && !each.endsWith("answers.json") ? [[each.slice(folder.length + 1), bytes]] : [],
    );
    // Where onnxruntime's CPU provider does not run a file, another provider's file of the same weights answers.
    const twin = folders.find((each) => each.startsWith(`${architecture}-`) && answersOf(each) !== undefined);
    const answers = answersOf(folder) ?? (twin && answersOf(twin));
    await withFolder(own, async (place) => {
      const report = await checkModel(await openChecked(place, {}, false), undefined);
      const caches = ["linear", ...(report.pages?.possible ? ["paged"] : [])];
      const isSame = async (cache) => ((await textOf(CausalLM, place, answers, cache)) ? [] : [cache]);
      const isCompared = report.runs && answers !== undefined;
      const others = isCompared ? (await Promise.all(caches.map(isSame))).flat() : [];
      const other = others.length > 0 ? `**other than onnxruntime's** (${others.join(", ")})` : "onnxruntime's";
      const text = isCompared ? other : "not compared";
      rows.push(
        `| ${architecture} | ${form.replace("-", ", ")} | ${report.runs ? "yes" : "no"} | ${text} | ${reportColumns(report)}`,
      );
    });
  }
  return { rows, architectures: folders.map((folder) => /^(.*?)-(?:int|fp|f)\d/.exec(folder)?.[1] ?? folder) };
}

/** Rows of the decoders that PyTorch exported. */
async function exportRows({ openChecked, checkModel }) {
  const files = new Map([...archive("decoders"), ...archive("architectures")]);
  const names = [...files.keys()]
    .flatMap((each) => (each.endsWith("/model.onnx") ? [each.split("/")[0]] : []))
    .sort((a, b) => (a < b ? -1 : 1));
  const rows = [];
  for (const name of names) {
    const [, architecture, opset, form] = /^(.*)_op(\d+)_?(.*)$/.exec(name);
    const own = [
      ["model.onnx", files.get(`${name}/model.onnx`)],
      ["tokenizer.json", "{}"],
    ];
    await withFolder(own, async (place) => {
      const report = await checkModel(await openChecked(place, {}, false), undefined);
      const isCompared = [...files.keys()].some((each) => each.startsWith(`${name}/`) && each.endsWith("logits.pb"));
      const whose = !isCompared ? "not compared" : /q[48]/.test(form) ? "onnxruntime's logits" : "PyTorch's logits";
      rows.push(
        `| ${architecture.replace("_static", " (static cache)")} | opset ${opset}${form === "" ? "" : `, ${form.replaceAll("_", ", ")}`} | ${report.runs ? "yes" : "no"} | ${whose} | ${reportColumns(report)}`,
      );
    });
  }
  return { rows, architectures: names.map((name) => /^(.*)_op\d+/.exec(name)[1].replace("_static", "")) };
}

const head = [
  "| architecture | file | runs | equal to | cache updates in place | pages | tokens sampled on the GPU | what is missing |",
  "|---|---|---|---|---|---|---|---|",
];

/** The rows that a page must have: those of the builder's folders, which are the quickest to make. */
export const builderLines = async (library) => (await builderRows(library)).rows;

/** The page's text. `library` has the catalogue and what loads and checks models. */
export async function modelsPage(library) {
  const [builder, exported] = [await builderRows(library), await exportRows(library)];
  const tested = new Set([...builder.architectures, ...exported.architectures]);
  return [
    "# Models",
    "",
    "Models with a short name, and the publishers' files that the tests run. `node scripts/models-page.mjs` writes this page.",
    "",
    "## By name",
    "",
    "`npx insitu chat qwen3-0.6b` downloads a model once and talks with it; `npx insitu models` lists those that fit your machine. Any other model of the hub goes by `owner/name`. The default",
    "variant has 4 bits: `q4`, and `q4f16` on a GPU. Sizes with ~ are estimates. Licences and contexts are those of the models' cards; the numbered links are sources.",
    "",
    ...byName(library.catalogue, tested),
    "",
    '## What "tested" means',
    "",
    "The files tested are written by the publishers' own tools, with all that the tools write (names, configuration, external data, quantized operators), but with small sizes and random",
    "weights. For the builder's folders, twelve greedy tokens and their probabilities are compared with onnxruntime's CPU provider, on linear caches and on pages. For the exports, the logits of every step",
    "are compared with PyTorch's, or with onnxruntime's for quantized ones. The other columns are what `npx insitu check` prints, with reasons, for any folder or model of the hub. What a model",
    "*says* with its real weights was not judged.",
    "",
    "Where a file allows products to round activations to 8 bits (`accuracy_level` 4, and products whose weights DequantizeLinear unpacks), onnxruntime does, in blocks as long as the weights'. On WASM insitu",
    "does it for weights of 4 bits and keeps 16 bits for those of 8, which is closer to the exact result and as fast. With random weights the difference may choose another expert: the logits differ, as",
    "onnxruntime's differ from its own without rounding. `node tools/measure/published.mjs FOLDER --exact` tells both distances.",
    "",
    "## What is refused",
    "",
    "`npx insitu check` names file, node and reason. Not supported: decoders in several files that run in turn (`decoder.pipeline`); caches of float8; experts of FP4 and MXFP4;",
    "onnxruntime's PagedAttention with latent or quantized caches. On linear caches only: quantized caches of GroupQueryAttention, files with a batch of",
    "one. `bnb4` variants have kernels on WASM alone, and are slower than `q4`.",
    "",
    "## onnxruntime-genai's model builder",
    "",
    "What microsoft/*, Foundry Local and much of onnx-community publish: folders with `genai_config.json`.",
    "",
    ...head,
    ...builder.rows,
    "",
    "## PyTorch's and optimum's exports",
    "",
    "`onnx/model*.onnx` with caches that grow by Concat, as for transformers.js. They are rewritten when they are loaded.",
    "",
    ...head,
    ...exported.rows,
    "",
  ].join("\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [{ catalogue }, { CausalLM }, { openChecked }, { checkModel }] = await Promise.all(
    ["hub/catalogue.js", "entry/node.js", "cli/check-source.js", "cli/check-report.js"].map(
      (file) => import(new URL(`../dist/${file}`, import.meta.url)),
    ),
  );
  const text = await modelsPage({ catalogue, CausalLM, openChecked, checkModel });
  if (readFileSync(path, { encoding: "utf8", flag: "a+" }) !== text) writeFileSync(path, text);
}
