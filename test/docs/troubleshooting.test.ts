// docs/troubleshooting.md has an entry for every error code, and every error leads to its own.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type ErrorCode, InsituError } from "../../src/base/error.js";

const textOf = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const page = textOf("docs/troubleshooting.md");
const [, declared] = /type ErrorCode =\n([^]*?"internal");/.exec(textOf("src/base/error.ts"))!;
const codes = [...declared.matchAll(/^ {2}\| "([a-z-]+)"/gm)].map(([, code]) => code as ErrorCode);

test("every error code has an entry, in the order of the declaration, and no other has one", () => {
  expect(codes.length).toBeGreaterThan(20);
  const entries = page.slice(page.indexOf("## By error code"));
  expect([...entries.matchAll(/^### (.+)$/gm)].map(([, code]) => code)).toEqual(codes);
  for (const text of entries.split(/^### .+$/m).slice(1)) expect(text.trim().length).toBeGreaterThan(60);
});

test("an error leads to the entry of its code", () => {
  for (const code of codes)
    expect(new InsituError(code, "no").help).toMatch(new RegExp(`/docs/troubleshooting\\.md#${code}$`));
});
