/** Names that differ only in their numbers, such as a layer's: how they are recognised, grouped and written as one. */

/** A text with every number replaced, so that the texts of all layers are one. */
export const patternOf = (text: string): string => text.replace(/\d+/g, "#");

/** Items with equal keys together, in the order of their first. */
export function groupAlike<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

/** Texts of one pattern as one: `past.0…31.key`. Numbers that all have in common stay as they are. */
export function rangeText(texts: readonly string[]): string {
  const [first] = texts;
  if (texts.every((text) => text === first)) return first;
  if (texts.some((text) => patternOf(text) !== patternOf(first))) return `${first}, …`;
  const numbers = texts.map((text) => text.match(/\d+/g) ?? []);
  let slot = 0;
  return first.replace(/\d+/g, (digits) => {
    const all = numbers.map((list) => list[slot]);
    slot++;
    if (all.every((number) => number === digits)) return digits;
    const sorted = all.map(Number).sort((a, b) => a - b);
    return `${sorted[0]}…${sorted.at(-1)}`;
  });
}
