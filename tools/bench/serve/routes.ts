/** Which of several workers a request goes to, as a balancer would decide it. */
import { InsituError } from "#insitu/base/error.js";
import type { Target } from "./client.js";

/** One way to decide. */
export interface Route {
  readonly name: string;
  /** The worker for a request with this key, which is under way from then on. */
  take(key: string): Target;
  /** A request is over. */
  done(target: Target): void;
}

/** One after the other, whatever is asked. */
export function roundRobin(targets: readonly Target[]): Route {
  let next = 0;
  return { name: "round-robin", take: () => targets[next++ % targets.length], done: () => {} };
}

/** How much more than the others a worker may have under way: HAProxy's hash-balance-factor 150. */
const mostLoad = 1.5;

/** The same key to the same worker, unless that one has much more under way than the others; then to the next one in an order of the key's own. */
export function boundedHash(targets: readonly Target[]): Route {
  const open = new Map<Target, number>(targets.map((target) => [target, 0]));
  return {
    name: "hash",
    take(key) {
      const all = [...open.values()].reduce((sum, count) => sum + count, 1);
      const most = Math.ceil((mostLoad * all) / targets.length);
      const order = targets.toSorted((a, b) => digest(key + b.address) - digest(key + a.address));
      const chosen = order.find((target) => open.get(target)! < most);
      if (chosen === undefined) throw new InsituError("internal", "internal: all workers have more than their share");
      open.set(chosen, open.get(chosen)! + 1);
      return chosen;
    },
    done: (target) => void open.set(target, open.get(target)! - 1),
  };
}

/** FNV-1a, mixed once more: keys that differ in their last character lie far apart. */
function digest(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}
