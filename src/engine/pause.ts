/** Lets the event loop turn: runs compute without pause, so that between them signals, timers and writes get their turn. */

const { setImmediate } = globalThis as { setImmediate?: (callback: () => void) => void };

/** Resolves after pending events were served. */
export const pause: () => Promise<void> =
  setImmediate === undefined
    ? () =>
        new Promise((resolve) => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = () => {
            port1.close();
            resolve();
          };
          port2.postMessage(undefined);
        })
    : () => new Promise((resolve) => setImmediate(resolve));

/**
 * Turns of the event loop that a request takes from its first byte to the line it waits in, and some more: with fewer between two steps it would sit
 * through a step in each.
 */
const turnsOfRequest = 6;

/** Resolves after what came has had time to get where it goes. */
export async function longPause(): Promise<void> {
  for (let turn = 0; turn < turnsOfRequest; turn++) await pause();
}
