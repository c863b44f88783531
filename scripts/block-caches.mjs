// Workers with pools of blocks and a store behind them, in the abstract: which blocks of a prompt are found where, and what goes when there is no
// room. Blocks have the names that the server gives them.
import { seededRandom } from "../dist/tools/bench/serve/seeded-random.js";
import { nameBlocks } from "../dist/serve/running/block-names.js";

/** A worker's pool: what was used longest ago goes first. */
export class Pool {
  #names = new Set();

  constructor(blocks) {
    this.blocks = blocks;
  }

  has(name) {
    return this.#names.has(name);
  }

  /** Uses the blocks of a text: its end is let go of before its beginning. */
  use(names) {
    for (const name of names.toReversed()) {
      this.#names.delete(name);
      this.#names.add(name);
    }
    for (const oldest of this.#names) {
      if (this.#names.size <= this.blocks) return;
      this.#names.delete(oldest);
    }
  }
}

/** Redis with allkeys-lru: of five keys by chance, the sixteen idlest that were seen are remembered, and the idlest of them goes. */
export class Redis {
  #used = new Map();
  #keys = [];
  #places = new Map();
  #candidates = [];
  #clock = 0;
  #random = seededRandom(1);

  constructor(blocks) {
    this.blocks = blocks;
  }

  get size() {
    return this.#keys.length;
  }

  /** What there is of these names: a key that is read is used. */
  load(names) {
    return names.map((name) => {
      if (!this.#used.has(name)) return false;
      this.#used.set(name, this.#clock++);
      return true;
    });
  }

  save(name) {
    if (!this.#used.has(name)) {
      while (this.#keys.length >= this.blocks && this.#keys.length > 0) this.#evict();
      if (this.blocks < 1) return;
      this.#places.set(name, this.#keys.length);
      this.#keys.push(name);
    }
    this.#used.set(name, this.#clock++);
  }

  #evict() {
    const seen = new Set(this.#candidates.filter((name) => this.#used.has(name)));
    for (let sample = 0; sample < 5; sample++) seen.add(this.#keys[Math.floor(this.#random() * this.#keys.length)]);
    const [idlest, ...rest] = [...seen].toSorted((a, b) => this.#used.get(a) - this.#used.get(b)).slice(0, 16);
    this.#candidates = rest;
    const place = this.#places.get(idlest);
    const last = this.#keys.pop();
    if (last !== idlest) {
      this.#keys[place] = last;
      this.#places.set(last, place);
    }
    this.#places.delete(idlest);
    this.#used.delete(idlest);
  }
}

/**
 * Requests with the names of their blocks, by nameBlocks of dist/cache: those of the prompt, and those that the answer fills. `answers: false` leaves
 * answers out, as where the next prompt has another one than was made.
 */
export function nameTrace(trace, { answers = true, blockSize = 16, fingerprint = "a model" } = {}) {
  // The last token of an answer is not read.
  const readOf = ({ prompt, answer }) => (answers ? [...prompt, ...answer.slice(0, -1)] : prompt);
  // The longest prompt of a conversation has all the others in it.
  const longest = new Map();
  for (const request of trace) longest.set(request.conversation, request);
  const chains = new Map(
    [...longest].map(([conversation, request]) => [
      conversation,
      nameBlocks(fingerprint, request.tenant, readOf(request), blockSize).map(({ name }) => name),
    ]),
  );
  return trace.map((request) => ({
    time: request.time,
    conversation: request.conversation,
    length: request.prompt.length,
    // The last token must be read.
    asked: Math.floor((request.prompt.length - 1) / blockSize),
    names: chains.get(request.conversation).slice(0, Math.floor(readOf(request).length / blockSize)),
  }));
}

/**
 * The share of the prompts' tokens that need not be read again, over `workers` pools of `blocks` blocks; `hash` sends a conversation to one
 * worker, without it requests go round. With `store`, a number of blocks, there is one behind them, asked for `leastBlocks` or more.
 */
export function hitRate(named, { workers, blocks, hash, store, leastBlocks = 1, blockSize = 16 }) {
  const pools = Array.from({ length: workers }, () => new Pool(blocks));
  const noted = pools.map(() => new Set());
  const redis = store === undefined ? undefined : new Redis(store);
  let [prompts, reused, fetched, saved] = [0, 0, 0, 0];
  for (const [at, { conversation, length, asked, names }] of named.entries()) {
    const which = hash ? scatter(conversation) % workers : at % workers;
    const pool = pools[which];
    let known = 0;
    while (known < asked && pool.has(names[known])) known++;
    const wanted = names.slice(known, asked);
    if (redis !== undefined && wanted.length >= leastBlocks) {
      const there = redis.load(wanted);
      const gap = there.indexOf(false);
      const count = gap < 0 ? there.length : gap;
      for (const name of wanted.slice(count)) noted[which].delete(name);
      for (const name of wanted.slice(0, count)) noted[which].add(name);
      known += count;
      fetched += count;
    }
    prompts += length;
    reused += known * blockSize;
    pool.use(names);
    if (redis === undefined) continue;
    for (const name of names) {
      if (noted[which].has(name)) continue;
      noted[which].add(name);
      redis.save(name);
      saved++;
    }
  }
  return { share: reused / prompts, fetched, saved, kept: redis?.size };
}

/** Seconds after which blocks are read again, as the shares of them say: { 0.5: the median, … }. */
export function secondsToReuse(named, shares) {
  const last = new Map();
  const gaps = [];
  for (const { time, asked, names } of named) {
    for (const name of names.slice(0, asked)) if (last.has(name)) gaps.push(time - last.get(name));
    for (const name of names) last.set(name, time);
  }
  gaps.sort((a, b) => a - b);
  return Object.fromEntries(shares.map((share) => [share, gaps[Math.floor(share * gaps.length)]]));
}

/** A whole number that has nothing to do with its neighbours'. */
function scatter(number) {
  let mixed = Math.imul(number ^ (number >>> 16), 0x45d9f3b);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x45d9f3b);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
