/** The page at `/`: a conversation with the model by way of the API. It is built from site/, and asks nobody but this server. */

/** What the page may do: its own scripts and styles, and requests to where it came from. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** A file of the page, as a request takes it; undefined for a path that is none of it. */
export async function pageResponse(path: string, accepted = ""): Promise<Response | undefined> {
  const { pageFiles } = await import("./page-files.gen.js");
  if (!Object.hasOwn(pageFiles, path)) return undefined;
  const { type, gzip } = pageFiles[path];
  const bytes = Uint8Array.from(atob(gzip), (letter) => letter.charCodeAt(0));
  const headers = {
    "content-type": type,
    "content-security-policy": policy,
    "referrer-policy": "no-referrer",
    vary: "accept-encoding",
    // Names below /page/ have their contents in them.
    "cache-control": path.startsWith("/page/") ? "public, max-age=31536000, immutable" : "no-cache",
  };
  if (/\bgzip\b/.test(accepted)) return new Response(bytes, { headers: { ...headers, "content-encoding": "gzip" } });
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")), { headers });
}
