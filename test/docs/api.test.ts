// docs/api.md has every public name with what its comment says, and no public name is without one.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { apiPage } from "../../scripts/api-page.mjs";
import { sessionOptionNames } from "../../src/session/options.js";

const { text, bare } = apiPage();

test("options that are checked by their names are on the page", () => {
  const missing = Object.keys(sessionOptionNames).filter((name) => !text.includes(`\`readonly ${name}?: `));
  expect(missing).toEqual([]);
});

test("docs/api.md is up to date: node scripts/api-page.mjs writes it after a build", () => {
  const page = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8");
  expect(page === text, "docs/api.md is not what the declarations say: node scripts/api-page.mjs").toBe(true);
});

test("every public name and member has a comment", () => expect(bare).toEqual([]));

test("it tells of the names that users rely on, with their members, and of nothing that is for insitu's own rooms", () => {
  for (const name of [
    "CausalLM",
    "InferenceSession",
    "Tensor",
    "State",
    "ops",
    "PagedState",
    "rewrite",
    "createServer",
  ])
    expect(text).toContain(`\n### ${name}\n`);
  for (const member of [
    "`generate(prompt: Prompt, ",
    "`createState(",
    "`rewind(length: number",
    "`readonly maxTokens?: number | undefined`",
  ])
    expect(text).toContain(`\n- ${member}`);
  expect(text).not.toMatch(/: For [a-z]+:/);
});
