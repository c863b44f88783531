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
