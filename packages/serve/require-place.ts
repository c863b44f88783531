/** Where requests come from: names that the server goes by, and pages that may ask it. */
import type { ServerSettings } from "./options.js";
import { ApiError } from "./wire/api-error.js";

/** Throws for a name that is not the server's, and for pages of origins that are not let in: they might ask without being able to read. */
export function requirePlace(request: Request, { hosts, cors: origins }: Pick<ServerSettings, "hosts" | "cors">): void {
  const { host, hostname } = new URL(request.url);
  if (hosts !== undefined && !hosts.includes(hostname))
    throw new ApiError(403, `this server is not called "${hostname}"`, { code: "unknown_host" });
  const origin = request.headers.get("origin");
  if (origin === null || origins.includes("*") || origins.includes(origin)) return;
  const asking = hostOf(origin);
  const own = [host, request.headers.get("host")];
  if (asking === undefined || !own.includes(asking))
    throw new ApiError(403, `pages of ${origin} are not allowed; start the server with --cors ${origin}`, {
      code: "unknown_origin",
    });
}

/** The host of an origin; undefined for one that has none. */
function hostOf(origin: string): string | undefined {
  try {
    return new URL(origin).host;
  } catch {
    return undefined;
  }
}
