/** Warnings about names that go away: each is told once. */

const told = new Set<string>();

/** Tells a sentence on the console, the first time that this is asked for. */
export function warnOnce(what: string, sentence: string): void {
  if (told.has(what)) return;
  told.add(what);
  console.warn(`insitu: ${sentence}`);
}
