/** API keys: who asks, told in a time that says nothing about the keys, and the salt that keeps what one asked from the others. */

/** Who asks. */
export interface Client {
  /** Turns go round over these; the beginning of the key's digest. */
  readonly tenant: string;
  /** Prefixes are shared within one salt; undefined where there are no keys. */
  readonly salt?: string;
}

/** Everybody, where there are no keys. */
const everybody: Client = { tenant: "everybody" };

const encoder = new TextEncoder();

async function digest(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", encoder.encode(text)));
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Equal or not, by a walk that is the same for every content. */
function equal(a: Uint8Array, b: Uint8Array): boolean {
  let different = a.length ^ b.length;
  for (let at = 0; at < a.length; at++) different |= a[at] ^ b[at % b.length];
  return different === 0;
}

/** The keys of a server. */
export class Keys {
  readonly #known: Promise<readonly { readonly digest: Uint8Array; readonly client: Client }[]>;
  readonly #open: boolean;

  /** `share`: what was asked with one key may be found with another. */
  constructor(keys: readonly string[], share: boolean) {
    this.#open = keys.length === 0;
    this.#known = Promise.all(
      keys.map(async (key) => ({
        digest: await digest(key),
        client: {
          tenant: hex(await digest(`tenant ${key}`)).slice(0, 12),
          salt: hex(await digest(share ? "shared salt" : `salt ${key}`)),
        },
      })),
    );
  }

  /** Whose key a header shows, OpenAI's or Anthropic's; undefined where it shows none that is known. Every key is looked at. */
  async clientOf(authorization: string | undefined, apiKey?: string): Promise<Client | undefined> {
    if (this.#open) return everybody;
    const shown = await digest(/^Bearer\s+(.+)$/i.exec(authorization ?? "")?.[1].trim() ?? apiKey?.trim() ?? "");
    let found: Client | undefined;
    for (const { digest: own, client } of await this.#known) if (equal(own, shown)) found = client;
    return found;
  }
}
