/**
 * Files that come by fetch: read from the response as it arrives, so that nothing is held beside what it is read into. What a server says
 * in place of a file, and what a browser does not say, is told in words.
 */
import { isWebPage } from "../base/foreign-file.js";
import { type ReadableFile, smallGap } from "../base/platform.js";

class MemoryFile implements ReadableFile {
  readonly inOrder = true;
  readonly identity: string;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array, identity: string) {
    this.#bytes = bytes;
    this.identity = identity;
  }

  get size(): number {
    return this.#bytes.length;
  }

  async read(offset: number, target: Uint8Array): Promise<void> {
    const source = this.#bytes.subarray(offset, offset + target.length);
    if (source.length < target.length)
      throw new Error(`${offset + target.length} bytes were asked for, there are ${this.size}`);
    target.set(source);
  }

  async close(): Promise<void> {}
}

/** A response as it comes: what one read gives is gone at the next. */
interface Reader {
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  cancel(): Promise<void>;
}

/** Bytes that a response is read in at once. */
const atOnce = 2 ** 18;

/** A reader with one buffer of its own, where the engine fills one: else every piece that arrives leaves its memory to the collector. */
function readerOf(body: ReadableStream<Uint8Array>): Reader {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    return body.getReader();
  }
  let own: Uint8Array<ArrayBuffer> | undefined = spare.pop() ?? new Uint8Array(atOnce);
  return {
    async read() {
      if (own === undefined) return { done: true };
      const { done, value } = await reader.read(own);
      own = value && new Uint8Array(value.buffer as ArrayBuffer);
      return { done, value };
    },
    async cancel() {
      if (own !== undefined && own.length > 0 && spare.length < mostOpen) spare.push(own);
      own = undefined;
      await reader.cancel();
    },
  };
}

/** Buffers of responses that have ended, used again: what is thrown away lies about until the collector comes. */
const spare: Uint8Array<ArrayBuffer>[] = [];

/** A response that is being read. */
interface Coming {
  readonly reader: Reader;
  /** Where its unread part starts, and where it ends. */
  position: number;
  readonly end: number;
  /** What has arrived of it and is unread. */
  pending: Uint8Array;
}

/** Responses of one file that are open at once: parts that are read in turn go on where they were, each in its own. */
const mostOpen = 4;

/** A file read from responses. One request serves all reads that follow each other; what lies elsewhere is asked for anew. */
class FetchedFile implements ReadableFile {
  readonly size: number;
  readonly identity: string;
  readonly version: string | undefined;
  readonly #url: string;
  /** True if the server answers with a part of the file where it is asked for one. */
  readonly #ranged: boolean;
  /** The one that was read last comes last. */
  readonly #coming: Coming[] = [];

  /** `response` is the first answer; `body` is its content where that starts at the file's first byte. */
  constructor(url: string, size: number, ranged: boolean, response: Response, body?: ReadableStream<Uint8Array>) {
    this.#url = url;
    this.size = size;
    this.identity = identityOf(url, response);
    // A weak tag is the server's word that nothing that matters changed, not that no byte did.
    const tag = response.headers.get("etag");
    this.version = tag === null || tag.startsWith("W/") ? undefined : `${this.identity} ${tag}`;
    this.#ranged = ranged;
    if (body !== undefined) this.#coming.push(comingFrom(body, 0, size));
  }

  get inOrder(): boolean {
    return !this.#ranged;
  }

  async read(offset: number, target: Uint8Array, until: number = this.size): Promise<void> {
    const end = offset + target.length;
    if (end > this.size) throw new Error(`${this.#url} ended after ${this.size} bytes, ${end} were asked for`);
    const coming = this.#openAt(offset, end) ?? (await this.#request(offset, Math.max(end, until)));
    try {
      await this.#take(coming, offset - coming.position, undefined);
      await this.#take(coming, target.length, target);
      if (coming.position === coming.end) await this.#finish(coming);
    } catch (error) {
      await this.#end(coming);
      throw error;
    }
  }

  /** The open response that has some bytes and reaches them soonest; undefined where none is near before them. */
  #openAt(offset: number, until: number): Coming | undefined {
    const reaching = this.#coming.filter(({ position, end }) => {
      const gap = offset - position;
      return gap >= 0 && until <= end && (!this.#ranged || gap <= smallGap);
    });
    if (reaching.length === 0) return undefined;
    const nearest = reaching.reduce((best, each) => (each.position > best.position ? each : best));
    this.#coming.push(...this.#coming.splice(this.#coming.indexOf(nearest), 1));
    return nearest;
  }

  async #request(offset: number, until: number): Promise<Coming> {
    while (this.#coming.length >= (this.#ranged ? mostOpen : 1)) await this.#end(this.#coming[0]);
    const response = await request(
      this.#url,
      this.#ranged ? { headers: { Range: `bytes=${offset}-${until - 1}` } } : {},
    );
    if ((this.#ranged && response.status !== 206) || response.body === null)
      throw new Error(`${this.#url} no longer answers ranged requests (status ${response.status})`);
    const coming = this.#ranged ? comingFrom(response.body, offset, until) : comingFrom(response.body, 0, this.size);
    this.#coming.push(coming);
    return coming;
  }

  /** Moves `count` bytes of a response into `target`, or drops them. */
  async #take(coming: Coming, count: number, target: Uint8Array | undefined): Promise<void> {
    for (let at = 0; at < count;) {
      if (coming.pending.length === 0) {
        const { done, value } = await coming.reader.read();
        if (done || value === undefined)
          throw new Error(
            `${this.#url} ended after ${coming.position} bytes, ${coming.position + count - at} were asked for`,
          );
        coming.pending = value;
      }
      const part = coming.pending.subarray(0, count - at);
      target?.set(part, at);
      coming.pending = coming.pending.subarray(part.length);
      coming.position += part.length;
      at += part.length;
    }
  }

  /** Hears the end of a response of which all has come: a connection that is broken off serves no other. */
  async #finish(coming: Coming): Promise<void> {
    await coming.reader.read();
    await this.#end(coming);
  }

  async #end(coming: Coming): Promise<void> {
    const at = this.#coming.indexOf(coming);
    if (at >= 0) this.#coming.splice(at, 1);
    await coming.reader.cancel().catch(() => undefined);
  }

  async close(): Promise<void> {
    while (this.#coming.length > 0) await this.#end(this.#coming[0]);
  }
}

const comingFrom = (body: ReadableStream<Uint8Array>, position: number, end: number): Coming => ({
  reader: readerOf(body),
  position,
  end,
  pending: new Uint8Array(),
});

/** Where a file came from in the end: names that lead to one place are one file. */
const identityOf = (url: string, response: Response): string => response.url || url;

/** A response of any kind. A browser hides why there is none: that is told as far as it can be known. */
async function reach(url: string, init?: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (cause) {
    const page = globalThis.location?.origin;
    const other = page !== undefined && /^https?:/.test(url) && new URL(url).origin !== page;
    throw new Error(
      other
        ? `nothing answers there, or its server does not allow pages of ${page} to read it (the header Access-Control-Allow-Origin); browsers do not tell which`
        : `nothing answers there (${cause instanceof Error ? cause.message : String(cause)})`,
      { cause },
    );
  }
}

const statusText = ({ status, statusText: text }: Response): string => `it answered ${status} ${text}`.trimEnd();

/** A response that is no error. */
async function request(url: string, init?: RequestInit): Promise<Response> {
  const response = await reach(url, init);
  if (response.ok) return response;
  await response.body?.cancel();
  throw new Error(statusText(response));
}

const webPage =
  "its server answered with a web page, as many do for unknown paths: check where the file is served from";

/** Why a file cannot be had; undefined where it can. Asks for no more than its first bytes, and throws where nothing answers. */
export async function absenceOf(url: string): Promise<string | undefined> {
  const head = await fetch(url, { method: "HEAD" }).catch(() => undefined);
  if (head?.ok && !saysWebPage(url, head)) return undefined;
  if (head?.status === 404 || head?.status === 410) return statusText(head);
  // Some servers know no HEAD, or sign each method apart; and what is called a page may be none.
  const response = await reach(url, { headers: { Range: `bytes=0-${looked - 1}` } });
  if (response.status === 416) return undefined; // an empty file has no first byte
  if (!response.ok) {
    await response.body?.cancel();
    return statusText(response);
  }
  return saysWebPage(url, response) && isWebPage(await beginningOf(response)) ? webPage : undefined;
}

/** Bytes that tell a web page. */
const looked = 512;

const saysWebPage = (url: string, response: Response): boolean =>
  response.headers.get("content-type")?.startsWith("text/html") === true && !/\.html?$/i.test(new URL(url).pathname);

/** The first bytes of an answer; the others are not waited for. */
async function beginningOf(response: Response): Promise<Uint8Array> {
  const reader = response.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel().catch(() => undefined);
  return value ?? new Uint8Array();
}

/** The file's size as an answer in ranges tells it; a server may hide it from other origins. */
function rangedSize(response: Response): number | undefined {
  const size = /\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1];
  return response.status === 206 && size !== undefined ? Number(size) : undefined;
}

/** A whole file as it arrives, where its size is told beforehand, else from memory. */
async function whole(url: string, response: Response): Promise<ReadableFile> {
  // What was compressed on the way has another length than its header says, and other origins do not tell that it was.
  const isPlain = response.type !== "cors" && response.headers.get("content-encoding") === null;
  const length = Number(response.headers.get("content-length") ?? NaN);
  if (isPlain && Number.isSafeInteger(length) && response.body !== null)
    return new FetchedFile(url, length, false, response, response.body);
  return new MemoryFile(new Uint8Array(await response.arrayBuffer()), identityOf(url, response));
}

/** Opens a file that will be read from its start to its end. */
export async function openToRead(url: string): Promise<ReadableFile> {
  if (!/^https?:/.test(url)) return whole(url, await request(url));
  const response = await reach(url, { headers: { Range: "bytes=0-" } });
  if (response.status === 416) {
    // An empty file has no first byte to give.
    await response.body?.cancel();
    return whole(url, await request(url));
  }
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(statusText(response));
  }
  if (response.status !== 206) return whole(url, response);
  const size = rangedSize(response);
  if (size !== undefined && response.body !== null) return new FetchedFile(url, size, true, response, response.body);
  await response.body?.cancel();
  return whole(url, await request(url));
}

/** Opens a file that will be read in parts. */
export async function openInRanges(url: string): Promise<ReadableFile> {
  const response = await reach(url, { headers: { Range: "bytes=0-0" } });
  if (!response.ok) {
    await response.body?.cancel();
    return whole(url, await request(url));
  }
  if (saysWebPage(url, response)) {
    await response.body?.cancel();
    const absence = await absenceOf(url);
    if (absence !== undefined) throw new Error(absence);
    return whole(url, await request(url));
  }
  // A server without ranges answers with everything; one that hides Content-Range does not tell the size.
  if (response.status !== 206) return whole(url, response);
  const size = rangedSize(response);
  await response.body?.cancel();
  return size === undefined ? whole(url, await request(url)) : new FetchedFile(url, size, true, response);
}
