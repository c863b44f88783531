// A peer in a process of its own: answers what the benchmark asks over the channel that it was started with. Messages are { id, call, args }, answers
// { id, value } or { id, error }.

/** Answers with the handlers' results, one after the other. */
export function serve(handlers) {
  let last = Promise.resolve();
  process.on("message", ({ id, call, args }) => {
    last = last.then(async () => {
      try {
        process.send({ id, value: await handlers[call](...args) });
      } catch (error) {
        process.send({ id, error: String(error?.message ?? error).slice(0, 2000) });
      }
      if (call === "stop") process.disconnect();
    });
  });
  process.on("disconnect", () => process.exit(0));
}
