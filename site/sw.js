// Keeps the page for visits without a network: its files by name, itself as it was last seen. What is asked of a server's API is never kept, and
// models are the library's to keep. FILES, VERSION and ISOLATES are written by the build.
const name = `insitu-page-${VERSION}`;

addEventListener("install", (event) => {
  const keep = async () => {
    const cache = await caches.open(name);
    await cache.addAll(FILES);
    await skipWaiting();
  };
  event.waitUntil(keep());
});

addEventListener("activate", (event) => {
  const takeOver = async () => {
    for (const each of await caches.keys())
      if (each.startsWith("insitu-page-") && each !== name) await caches.delete(each);
    await clients.claim();
  };
  event.waitUntil(takeOver());
});

/** The answer with the headers that let a page have threads, for hosts that cannot send them. */
const isolated = (response) => {
  if (!ISOLATES || response.type === "opaque") return response;
  const headers = new Headers(response.headers);
  headers.set("cross-origin-opener-policy", "same-origin");
  headers.set("cross-origin-embedder-policy", "require-corp");
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
};

const files = new Set(FILES.map((path) => new URL(path, registration.scope).href));

addEventListener("fetch", (event) => {
  const { request } = event;
  const [url] = request.url.split(/[?#]/);
  if (request.method !== "GET" || !files.has(url)) return;
  const answer = async () => {
    const cache = await caches.open(name);
    // The page itself may be newer; its files have their contents in their names.
    if (request.mode === "navigate") {
      try {
        return isolated(await fetch(request));
      } catch {
        return isolated(await cache.match(url));
      }
    }
    const kept = (await cache.match(url)) ?? (await fetch(request));
    return isolated(kept);
  };
  event.respondWith(answer());
});
