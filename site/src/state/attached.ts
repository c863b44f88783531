/** Text files that go with the next message: written before it, each in a fence with its name. */
import { signal } from "@preact/signals";

/** One file, or a long text that was pasted. */
export interface Attached {
  readonly name: string;
  readonly text: string;
}

export const attached = signal<readonly Attached[]>([]);

/** Why a file was not taken. */
export const attachProblem = signal("");

/** More is longer than any model's context. */
const mostBytes = 2_000_000;

/** A pasted text that is longer becomes a file: a field with all of it would be slow and hide the question. */
export const longPaste = 4000;

const isText = (text: string): boolean => !text.includes("\0") && !text.includes("\ufffd");

/** Takes files in. What is no text is told and left out. */
export async function attach(files: Iterable<File>): Promise<void> {
  attachProblem.value = "";
  for (const file of files) {
    const name = file.name.replace(/[`\n]/g, "");
    const text = file.size > mostBytes ? undefined : await file.text().catch(() => undefined);
    if (text === undefined)
      attachProblem.value = `“${name}” was not attached: it is larger than 2 MB, or cannot be read.`;
    else if (!isText(text)) attachProblem.value = `“${name}” was not attached: it is no text.`;
    else attached.value = [...attached.value, { name, text }];
  }
}

/** A fence that no line of the text closes. */
function fenceFor(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  return "`".repeat(longest + 1);
}

/** A message with its files before it. */
export function withAttached(files: readonly Attached[], message: string): string {
  const parts = files.map(({ name, text }) => {
    const fence = fenceFor(text);
    return `${name}\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...parts, ...(message.trim() === "" ? [] : [message])].join("\n\n");
}
