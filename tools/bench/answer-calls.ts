/** The other end of a `PeerProcess`: answers calls over the channel that the process was started with, one after the other. */

/** Answers calls by name until the channel is closed, which ends the process. */
export function answerCalls(calls: Readonly<Record<string, (...args: never[]) => Promise<unknown>>>): void {
  let last = Promise.resolve();
  process.on("message", ({ id, call, args }: { id: number; call: string; args: readonly never[] }) => {
    last = last.then(async () => {
      try {
        process.send!({ id, value: await calls[call](...args) });
      } catch (error) {
        process.send!({ id, error: (error instanceof Error ? error.message : String(error)).slice(0, 2000) });
      }
    });
  });
  process.on("disconnect", () => process.exit(0));
}

/** Milliseconds that the threads of this process have computed since then, whoever else had the cores in between. */
export function processorMsSince(begun: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1000;
}
