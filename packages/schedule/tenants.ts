/** Texts by tenant: who has the most of something, and gives way to one that has less. */
import type { ScheduledText } from "./step.js";

/** Texts of each tenant, in the order in which they are given. */
export function byTenant(texts: readonly ScheduledText[]): Map<string, ScheduledText[]> {
  const found = new Map<string, ScheduledText[]>();
  for (const text of texts) {
    const own = found.get(text.tenant);
    if (own === undefined) found.set(text.tenant, [text]);
    else own.push(text);
  }
  return found;
}

/** The newest text of the tenant that has most of something, more than `least`; not of `text`'s own tenant, nor of a higher priority. */
export function largestOf(
  text: ScheduledText,
  least: number,
  amountOf: (texts: readonly ScheduledText[]) => number,
  tenants: ReadonlyMap<string, readonly ScheduledText[]>,
): ScheduledText | undefined {
  let [found, most]: [ScheduledText | undefined, number] = [undefined, least];
  for (const [tenant, texts] of tenants) {
    const amount = amountOf(texts);
    const [newest] = texts
      .filter(({ priority }) => priority <= text.priority)
      .toSorted((a, b) => b.arrival - a.arrival);
    if (tenant === text.tenant || newest === undefined || amount <= most) continue;
    [found, most] = [newest, amount];
  }
  return found;
}

/** Tokens of texts that are to be read. */
export const leftOf = (texts: readonly ScheduledText[]): number =>
  texts.reduce((sum, { length, computed }) => sum + length - computed, 0);

/** All but one. */
export const without = (texts: readonly ScheduledText[], text: ScheduledText): ScheduledText[] =>
  texts.filter((each) => each !== text);
