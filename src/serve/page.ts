/** The page at `/`: a conversation with the model by way of the API. It is built from site/, and asks nobody but this server. */

/** What the page may do: its own scripts and styles, and requests to where it came from. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** A file of the page; undefined for a path that is none of it. */
export async function pageResponse(path: string): Promise<Response | undefined> {
  const { pageFiles } = await import("./page-files.gen.js");
  if (!Object.hasOwn(pageFiles, path)) return undefined;
  const { type, text } = pageFiles[path];
  return new Response(text, {
    headers: {
      "content-type": type,
      "content-security-policy": policy,
      "referrer-policy": "no-referrer",
      // Names below /page/ have their contents in them.
      "cache-control": path.startsWith("/page/") ? "public, max-age=31536000, immutable" : "no-cache",
    },
  });
}
