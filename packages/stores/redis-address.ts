/** The address of a Redis or Valkey, or of a cluster of them, taken apart. What it may have of a password is never told. */
import { InsituError } from "#insitu/base/error.js";

/** Where a store is. */
export interface RedisAddress {
  /** One server; of a cluster, those that are asked which others there are. Each with its credentials. */
  readonly urls: readonly string[];
  readonly isCluster: boolean;
  /** What all servers of a cluster ask for. */
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
}

const form =
  "redis://host:port, or redis-cluster://host:port,host:port for a cluster; rediss:// and rediss-cluster:// for TLS";

/** Takes an address apart, or refuses it. */
export function readRedisAddress(address: string): RedisAddress {
  const [, protocol, secure, cluster, credentials = "", rest] =
    /^(redis(s)?(-cluster)?:)\/\/(?:(.*)@)?([^@]*)$/s.exec(address) ?? [];
  const isCluster = cluster !== undefined;
  const [, hosts = "", path = ""] = /^([^/?#]*)(.*)$/s.exec(rest ?? "") ?? [];
  const scheme = secure === undefined ? "redis" : "rediss";
  const before = credentials === "" ? "" : `${credentials}@`;
  const urls = (isCluster ? hosts.split(",") : [hosts]).map((host) => `${scheme}://${before}${host}${path}`);
  if (protocol === undefined || hosts === "" || !urls.every((url) => hasHost(url)))
    throw new InsituError("invalid-argument", `a store must be ${form}, got "${told(address)}"`);
  if (isCluster && path !== "" && path !== "/")
    throw new InsituError("invalid-argument", `a cluster has one database and no path: give ${form}`);
  const { username, password } = new URL(urls[0]);
  return {
    urls,
    isCluster,
    username: username === "" ? undefined : decodeURIComponent(username),
    password: password === "" ? undefined : decodeURIComponent(password),
    tls: secure !== undefined,
  };
}

const hasHost = (url: string): boolean => URL.canParse(url) && new URL(url).hostname !== "";

/** What may be said of an address that was refused. */
function told(address: string): string {
  const scheme = /^[\w+.-]+:\/\//.exec(address)?.[0];
  if (scheme !== undefined) return `${scheme}…`;
  return address.includes("@") ? "…" : address;
}
