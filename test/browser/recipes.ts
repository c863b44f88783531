// The recipes of docs/browsers.md, read out of the page that tells them.
import { readFileSync } from "node:fs";

const page = readFileSync(new URL("../../docs/browsers.md", import.meta.url), "utf8");

/** The code of docs/browsers.md that begins so. */
export function recipe(language: string, start: string): string {
  const code = [...page.matchAll(/```(\w+)\n(.*?)```/gs)].find(
    ([, written, text]) => written === language && text.startsWith(start),
  );
  if (code === undefined) throw new Error(`docs/browsers.md has no ${language} that begins with ${start}`);
  return code[2];
}
