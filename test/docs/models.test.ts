// docs/models.md says what the catalogue says and what the publishers' files do. Every run makes the rows of the builder's folders anew, the soak the
// whole page.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { builderLines, modelsPage } from "../../scripts/models-page.mjs";
import { checkModel } from "../../packages/cli/check-report.js";
import { openChecked } from "../../packages/cli/check-source.js";
import { CausalLM } from "../../src/entry/node.js";
import { catalogue } from "../../packages/hub/catalogue.js";
import { soak } from "../support/soak.js";

const page = readFileSync(new URL("../../docs/models.md", import.meta.url), "utf8");
const library = { catalogue, CausalLM, openChecked, checkModel };

test("the page is up to date: node scripts/models-page.mjs writes it", async () => {
  if (soak) expect(await modelsPage(library)).toBe(page);
  const lines = (await builderLines(library)) as string[];
  expect(lines.length).toBeGreaterThan(0);
  expect(page).toContain(lines.join("\n"));
});

test("every model of the catalogue is on it, with its sources, its sizes and its licence", () => {
  for (const { name, repository, sources, licence, variants } of catalogue) {
    const row = page.split("\n").find((line) => line.startsWith(`| \`${name}\` |`));
    expect(row, name).toContain(`| ${repository} `);
    for (const source of sources) expect(row).toContain(`(${source})`);
    expect(row).toContain(` ${licence} |`);
    for (const variant of variants) expect(row).toContain(`${variant.name} ${variant.approximate === true ? "~" : ""}`);
  }
});

test("README points to it in its first screen, with names of models", () => {
  const first = readFileSync(new URL("../../README.md", import.meta.url), "utf8")
    .split("\n")
    .slice(0, 24)
    .join("\n");
  expect(first).toContain("(docs/models.md)");
  expect(catalogue.filter(({ name }) => first.includes(`${name}`)).length).toBeGreaterThan(1);
});
