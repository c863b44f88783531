// How the clients of the soak behave: they read to the end, leave before the first token or in the middle, read nothing, send half a body or
// nonsense. A client throws where an answer is not what it may be; that it left itself is no failure.
import { connect } from "node:net";
import { longAsk, rightAsk, wrongAsk } from "./asks.mjs";

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Clients of one server. */
export class Clients {
  #address;
  #keys;
  #longestStall;
  /** What was done, by kind, and the statuses that came. */
  counts = new Map();

  constructor(address, keys, longestStall) {
    this.#address = address;
    this.#keys = keys;
    this.#longestStall = longestStall;
  }

  /** One client for once. */
  async act(chance) {
    const kind = chance.below(100);
    if (kind < 35) return this.#read(chance, false);
    if (kind < 60) return this.#read(chance, true);
    if (kind < 70) return this.#leaveEarly(chance);
    if (kind < 82) return this.#leaveInTheMiddle(chance);
    if (kind < 85) return this.#stall(chance);
    if (kind < 88) return this.#halfABody(chance);
    if (kind < 90) return this.#withoutKey(chance);
    return this.#nonsense(chance);
  }

  #count(what) {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  #post(path, text, chance, signal) {
    return fetch(this.#address + path, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${chance.oneOf(this.#keys)}` },
      body: text,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  #check({ path, statuses }, { status }, told, text) {
    this.#count(`status ${status}`);
    if (!statuses.includes(status)) throw new Error(`${path} was answered ${status}: ${told}\nto ${text}`);
  }

  async #read(chance, stream) {
    const ask = rightAsk(chance);
    const text = JSON.stringify({ ...ask.body, ...(stream ? { stream } : {}) });
    const response = await this.#post(ask.path, text, chance);
    const told = await response.text();
    this.#count(stream ? "streamed" : "whole");
    this.#check(ask, response, told, text);
    if (!stream || response.status !== 200 || !response.headers.get("content-type").startsWith("text/event-stream"))
      return;
    // It waited, and gave its place to a key with fewer texts in the queue.
    if (/"(queue_full|rate_limit_exceeded)"/.test(told)) return this.#count("streams that gave way");
    const end = ask.path === "/v1/responses" ? /event: response\.(completed|incomplete)\n/ : /data: \[DONE\]\n\n$/;
    if (!end.test(told) || told.includes('data: {"error"'))
      throw new Error(`a stream of ${ask.path} ended with ${told.slice(-300)}\nto ${text}`);
  }

  async #leaveEarly(chance) {
    const ask = rightAsk(chance);
    const leaving = new AbortController();
    const asked = this.#post(
      ask.path,
      JSON.stringify({ ...ask.body, stream: chance.happens(0.5) }),
      chance,
      leaving.signal,
    );
    asked.then((response) => response.body?.cancel()).catch(() => {});
    await wait(chance.below(20));
    leaving.abort();
    await asked.catch(() => {});
    this.#count("left before the first token");
  }

  async #leaveInTheMiddle(chance) {
    const ask = rightAsk(chance);
    const leaving = new AbortController();
    const text = JSON.stringify({ ...ask.body, stream: true });
    const response = await this.#post(ask.path, text, chance, leaving.signal);
    if (response.status !== 200) return this.#check(ask, response, await response.text(), text);
    try {
      let left = 1 + chance.below(12);
      for await (const _ of response.body) if (--left === 0) break;
      leaving.abort();
    } catch {
      // The reading ends with the client.
    }
    this.#count("left in the middle");
  }

  /** A request by hand; what comes is not read. */
  #raw(path, text, length, key) {
    const { hostname, port } = new URL(this.#address);
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    socket.pause();
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${text}`,
    );
    return socket;
  }

  async #stall(chance) {
    const { path, body } = longAsk(chance);
    const text = JSON.stringify(body);
    const socket = this.#raw(path, text, text.length, chance.oneOf(this.#keys));
    await wait(chance.between(500, this.#longestStall));
    socket.destroy();
    this.#count("stalled");
  }

  async #halfABody(chance) {
    const { path, body } = longAsk(chance);
    const text = JSON.stringify(body);
    const socket = this.#raw(path, text.slice(0, chance.below(text.length)), text.length, chance.oneOf(this.#keys));
    await wait(chance.below(50));
    socket.destroy();
    this.#count("half a body");
  }

  async #withoutKey(chance) {
    const ask = rightAsk(chance);
    const response = await fetch(this.#address + ask.path, { method: "POST", body: JSON.stringify(ask.body) });
    const told = await response.text();
    this.#count("without a key");
    this.#check({ ...ask, statuses: [401] }, response, told, "");
  }

  async #nonsense(chance) {
    const { path, text, statuses } = wrongAsk(chance);
    this.#count("nonsense");
    let response;
    try {
      response = await this.#post(path, text, chance);
    } catch (error) {
      // A body that is too long is not read to its end, and its client may hear of that while it still sends.
      if (text.length > 4 << 20) return;
      throw error;
    }
    this.#check({ path, statuses }, response, await response.text().catch(() => ""), text.slice(0, 300));
  }
}
