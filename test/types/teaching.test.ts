// The declarations teach: every public name says what it is for, options say what they are by default, main functions have an example, and the
// examples compile under exactOptionalPropertyTypes, where options take undefined as the run does.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { apiPage } from "../../scripts/api-page.mjs";

interface Told {
  readonly name: string;
  readonly comment: string;
  readonly tags: Readonly<Record<string, string>>;
}
interface PublicName extends Told {
  readonly kind: string;
  readonly members: readonly (Told & { readonly text: string; readonly isOptional: boolean })[];
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const names = apiPage().names as readonly PublicName[];
const place = mkdtempSync(join(tmpdir(), "insitu-teaching-"));
afterAll(() => rmSync(place, { recursive: true }));

/** True for words that are a sentence: a capital or a name first, a full stop last, more than one word. */
const isSentence = (words: string): boolean => /^[A-Z0-9"'`(<a-z][^]*[.…)]$/.test(words) && words.includes(" ");

/** Options without a default, by what they are. */
const withoutDefault: readonly (readonly [
  reason: string,
  holds: (member: PublicName["members"][number]) => boolean,
])[] = [
  ["a callback: where there is none, none is called", ({ text }) => /\?: \(\(.*\) => /.test(text)],
  ["a signal: where there is none, nothing cancels", ({ name }) => name === "signal"],
  ["onnxruntime's, without effect", ({ comment }) => comment.startsWith("Part of onnxruntime's options")],
  [
    "what the text must obey: where there is none, it is free",
    ({ name }) => ["jsonSchema", "regex", "grammar", "constraint"].includes(name),
  ],
  ["a thing of the caller's that is used if it is there", ({ name }) => ["state", "prefixes", "prompt"].includes(name)],
];

const options = names.filter(({ name, kind }) => kind === "interface" && /(Options|Settings)$/.test(name));

test("every public name and member says in a sentence what it is for", () => {
  const wrong = names.flatMap(({ name, comment, members }) => [
    ...(isSentence(comment) ? [] : [`${name}: ${comment}`]),
    ...members.flatMap((member) =>
      member.comment === "" || isSentence(member.comment) ? [] : [`${name}.${member.name}: ${member.comment}`],
    ),
  ]);
  expect(wrong).toEqual([]);
  expect(names.length).toBeGreaterThan(100);
});

test("words that explain nothing do not occur", () => {
  const habits =
    /tells of|stands in the way|where (?:it is )?left out|when left out|may not ask|\bnobody\b|^What it took/i;
  const found = names.flatMap(({ name, comment, members }) =>
    [{ name: "", comment }, ...members].flatMap((each) =>
      habits.test(each.comment) ? [`${name}.${each.name}: ${each.comment}`] : [],
    ),
  );
  expect(found).toEqual([]);
});

test("every option says what it is by default, but for those that have none", () => {
  expect(options.length).toBeGreaterThan(15);
  const without = options.flatMap(({ name, members }) =>
    members.flatMap((member) =>
      !member.isOptional || member.tags["default"] !== undefined || withoutDefault.some(([, holds]) => holds(member))
        ? []
        : [`${name}.${member.name}`],
    ),
  );
  expect(without).toEqual([]);
  expect(options.flatMap(({ members }) => members.filter(({ tags }) => tags["default"])).length).toBeGreaterThan(90);
});

test("every option takes undefined where it may be left out", () => {
  const strict = options.flatMap(({ name, members }) =>
    members.flatMap(({ name: member, isOptional, text }) =>
      isOptional && !text.endsWith("| undefined") ? [`${name}.${member}`] : [],
    ),
  );
  expect(strict).toEqual([]);
});

const tagged = (tag: string): string[] =>
  names.flatMap(({ name, tags, members }) => [
    ...(tags[tag] === undefined ? [] : [name]),
    ...members.flatMap((member) => (member.tags[tag] === undefined ? [] : [`${name}.${member.name}`])),
  ]);

test("what users begin with has an example, and what throws by its contract says so", () => {
  const examples =
    "models State EmbeddingModel ops PagedState rewrite insitu createServer CausalLM.load CausalLM.generate CausalLM.generateObject CausalLM.generateBatch CausalLM.chat CausalLM.saveContext InferenceSession.create InferenceSession.run InferenceSession.createState";
  expect(tagged("example")).toEqual(expect.arrayContaining(examples.split(" ")));
  const throwing =
    "rewrite createServer CausalLM.load CausalLM.generate CausalLM.generateObject CausalLM.generateBatch CausalLM.chat CausalLM.saveContext CausalLM.restoreContext InferenceSession.create InferenceSession.run InferenceSession.createState State.rewind State.save State.restore Chat.send EmbeddingModel.embed";
  expect(tagged("throws")).toEqual(expect.arrayContaining(throwing.split(" ")));
});

const undefinedOptions = `import { CausalLM, InferenceSession, models } from "insitu";
import { createServer } from "insitu/serve";
const none = undefined;
const lm = await CausalLM.load(none, { backend: none, context: none, variant: none, hub: none, cache: none });
await lm.generate("Once", { signal: none, maxTokens: none, seed: none, jsonSchema: none }).text();
lm.chat([{ role: "user", content: "Hello" }], { tools: none, reasoning: { effort: none } });
await InferenceSession.create("model.onnx", { threads: none, onFallback: none, wasm: { relaxedSimd: none } });
createServer(lm, { apiKeys: none, cors: none });
await models.pull("smollm2-135m", { signal: none, onProgress: none });
// Known names and any other where models decide; a misspelt backend is an error.
await CausalLM.load(none, { variant: "model_of_mine" });
lm.chat([{ role: "ipython", content: "" }]);
// @ts-expect-error
await CausalLM.load(none, { backend: "wepgpu" });
// @ts-expect-error
await CausalLM.load(none, { toolFormat: "herms" });
`;

test("examples compile, and options take undefined, under exactOptionalPropertyTypes", () => {
  mkdirSync(join(place, "node_modules/@ai-sdk"), { recursive: true });
  symlinkSync(root, join(place, "node_modules/insitu"));
  for (const name of ["ai", "@ai-sdk/provider", "@types", "@standard-schema"])
    symlinkSync(join(root, "node_modules", name), join(place, "node_modules", name));
  writeFileSync(join(place, "package.json"), JSON.stringify({ type: "module" }));
  const programs = names.flatMap(({ name, tags, members }) =>
    [{ name: "", tags }, ...members].flatMap((each) =>
      each.tags["example"] === undefined ? [] : [[`${name}-${each.name}.ts`, each.tags["example"]] as const],
    ),
  );
  expect(programs.length).toBeGreaterThan(15);
  for (const [file, text] of programs) writeFileSync(join(place, file), `${text}\n`);
  writeFileSync(join(place, "undefined-options.ts"), undefinedOptions);
  const strict =
    "--noEmit --strict --exactOptionalPropertyTypes --skipLibCheck --target es2024 --lib esnext,dom,dom.iterable --types node --module nodenext";
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const files = ["undefined-options.ts", ...programs.map(([file]) => file)];
  const { status, stdout } = spawnSync(process.execPath, [compiler, ...strict.split(" "), ...files], {
    cwd: place,
    encoding: "utf8",
  });
  expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
}, 120_000);
