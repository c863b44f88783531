// Inside the server of the soak (node --import): tells how much memory it takes when asked, and how much of the heap is left once garbage is gone.
process.on("message", (asked) => {
  const { rss } = process.memoryUsage();
  if (asked === "collect") globalThis.gc();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  process.send({ rss, heapUsed, external, arrayBuffers });
});
process.channel.unref();
