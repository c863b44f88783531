// The scheduler alone, driven by random arrivals and cancellations over a model whose next token follows from the rows in its blocks: wrong
// rows make wrong texts. The seed is printed; INSITU_SEED repeats one, INSITU_SOAK runs all steps.
import { describe, expect, test } from "vitest";
import { FairPlaces } from "../../packages/schedule/fair-places.js";
import { Scheduler, type SchedulerOptions } from "../../packages/schedule/scheduler.js";
import { MockBlocks } from "./mock-blocks.js";
import { soak } from "../support/soak.js";

const wantedSteps = soak ? 20_000 : 1_500;

/** Random numbers by a seed. */
function randomBy(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** The model: what comes after rows. */
function nextToken(rows: readonly number[]): number {
  let hash = 17;
  for (const row of rows) hash = (Math.imul(hash, 31) + row) >>> 0;
  return hash % 97;
}

/** What a text is when nothing else runs. */
function textAlone(prompt: readonly number[], most: number): number[] {
  const tokens = [...prompt];
  while (tokens.length < most) tokens.push(nextToken(tokens));
  return tokens;
}

interface Asked {
  readonly id: string;
  readonly tenant: string;
  readonly priority: number;
  readonly prompt: readonly number[];
  readonly most: number;
  readonly arrival: number;
  admissions: number;
  preemptions: number;
  isRunning: boolean;
}

/** A world of texts around a scheduler. */
class World {
  readonly blocks: MockBlocks;
  readonly scheduler: Scheduler;
  readonly open = new Map<string, Asked>();
  readonly options: SchedulerOptions;
  readonly #random: (below: number) => number;
  readonly #places: FairPlaces<Asked>;
  readonly mostWaiting: number;
  /** Admissions of tenants that had as many texts running, since a tenant with waiting texts had its turn, by priority and tenant. */
  readonly #passed = new Map<string, Map<string, number>>();
  arrivals = 0;
  finished = 0;
  refused = 0;
  displaced = 0;
  paused = 0;

  constructor(random: (below: number) => number) {
    this.#random = random;
    this.mostWaiting = 1 + random(20);
    this.#places = new FairPlaces(this.mostWaiting);
    const tokenBudget = 4 + random(40);
    this.options = {
      blockSize: 1 + random(6),
      tokenBudget,
      mostRunning: 1 + random(Math.min(12, tokenBudget)),
      watermark: random(3),
      mostPreemptions: random(4),
    };
    this.blocks = new MockBlocks(8 + random(40), this.options.blockSize);
    this.scheduler = new Scheduler(this.options, this.blocks);
    this.total = this.blocks.available;
  }

  readonly total: number;

  arrive(): void {
    const random = this.#random;
    const room = this.total * this.options.blockSize;
    // Few beginnings, so that they are shared.
    const beginning = random(3);
    const length = 1 + random(Math.min(40, room - 1));
    const prompt = Array.from({ length }, (_, at) => (at < 24 ? (beginning * 7 + at) % 11 : random(50)));
    const id = `text ${this.arrivals}`;
    const most = Math.min(room, length + 1 + random(20));
    const [tenant, priority] = [`tenant ${random(3)}`, random(4) === 0 ? 1 : 0];
    const salt = `salt ${random(2)}`;
    const asked = { id, tenant, priority, prompt, most, arrival: this.arrivals, admissions: 0, preemptions: 0 };
    const text: Asked = { ...asked, isRunning: false };
    if (!this.#takePlace(text)) return;
    this.blocks.add(id, salt, prompt);
    this.scheduler.add({ id, tenant, priority, length, most });
    this.open.set(id, text);
    this.arrivals++;
  }

  /** Whoever gives way has more waiting than who comes; whoever is refused has no less than anybody, but for one. */
  #takePlace(text: Asked): boolean {
    const waiting = this.#waitingBy(() => true);
    const own = (waiting.get(text.tenant) ?? 0) + 1;
    const isFull = this.#places.taken === this.mostWaiting;
    const yielding = this.#places.take(text);
    if (yielding === undefined) {
      expect(isFull).toBe(true);
      for (const [tenant, count] of waiting) if (tenant !== text.tenant) expect(count).toBeLessThanOrEqual(own);
      this.refused++;
      return false;
    }
    expect(yielding.length).toBe(isFull ? 1 : 0);
    for (const other of yielding) {
      const theirs = waiting.get(other.tenant)!;
      expect(theirs).toBe(Math.max(...waiting.values()));
      expect(theirs).toBeGreaterThan(own);
      expect(other.admissions).toBe(0);
      this.displaced++;
      this.#end(other.id);
    }
    return true;
  }

  /** Texts by tenant that never ran, or that do. */
  #waitingBy(wanted: (text: Asked) => boolean): Map<string, number> {
    const counts = new Map<string, number>();
    for (const text of this.open.values())
      if (text.admissions === 0 && wanted(text)) counts.set(text.tenant, (counts.get(text.tenant) ?? 0) + 1);
    return counts;
  }

  cancel(): void {
    const ids = [...this.open.keys()];
    const id = ids[this.#random(ids.length)];
    this.#end(id);
  }

  #end(id: string): void {
    const before = this.blocks.available;
    const text = this.open.get(id)!;
    this.#places.leave(text);
    if (text.admissions > 0 && !text.isRunning) this.#forgetTurns(text.tenant);
    this.scheduler.remove(id);
    expect(this.blocks.available).toBeGreaterThanOrEqual(before);
    this.blocks.forget(id);
    this.open.delete(id);
    this.#forgetAbsent();
  }

  step(): void {
    const { tokenBudget, mostRunning, mostPreemptions } = this.options;
    const plan = this.scheduler.plan();
    expect(plan.stuck).toBeUndefined();
    expect(new Set(plan.parts.map(({ id }) => id)).size).toBe(plan.parts.length);
    expect(plan.parts.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(tokenBudget);
    expect(this.scheduler.running).toBeLessThanOrEqual(mostRunning);
    if (this.open.size > 0 && plan.preempted.length === 0) expect(plan.parts.length).toBeGreaterThan(0);
    expect(this.scheduler.waiting + this.scheduler.running).toBe(this.open.size);
    for (const id of plan.preempted) {
      const text = this.open.get(id)!;
      expect(++text.preemptions).toBeLessThanOrEqual(mostPreemptions);
    }
    for (const id of [...plan.preempted, ...plan.displaced]) {
      expect(this.blocks.rows(id)).toEqual([]);
      this.open.get(id)!.isRunning = false;
    }
    for (const id of plan.resumed) this.open.get(id)!.isRunning = true;
    this.paused += plan.paused.length;
    const changed = [...plan.preempted, ...plan.displaced, ...plan.paused, ...plan.resumed];
    const unsettled = new Set(changed.map((id) => this.open.get(id)!.tenant));
    for (const tenant of unsettled) this.#forgetTurns(tenant);
    for (const { id, reused } of plan.admitted) {
      const text = this.open.get(id)!;
      this.#admitted(text, reused, unsettled);
      text.isRunning = true;
    }
    for (const id of plan.paused) this.open.get(id)!.isRunning = false;
    for (const { id, from, count } of plan.parts) this.blocks.read(id, from, count);
    for (const { id, isLast } of plan.parts) {
      this.blocks.publish(id);
      const rows = this.blocks.rows(id);
      const tokens = this.blocks.tokens(id);
      expect(rows).toEqual(tokens.slice(0, rows.length));
      expect(isLast).toBe(rows.length === tokens.length);
      if (isLast) tokens.push(nextToken(rows));
    }
    for (const { id } of plan.parts) {
      const { prompt, most } = this.open.get(id)!;
      const tokens = this.blocks.tokens(id);
      if (tokens.length < most) continue;
      expect(tokens).toEqual(textAlone(prompt, most));
      this.finished++;
      this.#end(id);
    }
    this.scheduler.commit();
  }

  /**
   * First come, first served within a priority and tenant; nobody goes before a tenant that has fewer texts running, and among equals turns go
   * round. `unsettled` are tenants whose running texts changed in the step otherwise than by admissions.
   */
  #admitted(text: Asked, reused: number, unsettled: ReadonlySet<string>): void {
    expect(reused).toBeLessThan(this.blocks.tokens(text.id).length);
    this.#places.leave(text);
    this.#passed.delete(`${text.priority} ${text.tenant}`);
    if (text.admissions++ > 0) return;
    const waiting = [...this.open.values()].filter(
      ({ priority, admissions }) => admissions === 0 && priority === text.priority,
    );
    expect(waiting.filter(({ tenant, arrival }) => tenant === text.tenant && arrival < text.arrival)).toEqual([]);
    const running = (tenant: string): number =>
      [...this.open.values()].filter((other) => other.tenant === tenant && other.isRunning).length;
    for (const tenant of new Set(waiting.map((other) => other.tenant))) {
      const key = `${text.priority} ${tenant}`;
      if (tenant === text.tenant) continue;
      if (unsettled.has(tenant) || unsettled.has(text.tenant)) continue;
      const ahead = running(text.tenant) - running(tenant);
      expect(ahead, `${text.tenant} before ${tenant}`).toBeLessThanOrEqual(0);
      if (ahead < 0) continue;
      const passed = this.#passed.get(key) ?? new Map<string, number>();
      this.#passed.set(key, passed);
      passed.set(text.tenant, (passed.get(text.tenant) ?? 0) + 1);
      expect(passed.get(text.tenant), `${text.tenant} before ${tenant}`).toBeLessThanOrEqual(1);
    }
    this.#forgetAbsent();
  }

  /** Who was preempted has its turn back, and who goes on had one. */
  #forgetTurns(tenant: string): void {
    for (const [key, passed] of this.#passed) {
      if (key.endsWith(` ${tenant}`)) this.#passed.delete(key);
      passed.delete(tenant);
    }
  }

  /** A tenant without waiting texts comes anew. */
  #forgetAbsent(): void {
    const waiting = [...this.open.values()].filter(({ admissions }) => admissions === 0);
    for (const key of this.#passed.keys())
      if (!waiting.some(({ priority, tenant }) => `${priority} ${tenant}` === key)) this.#passed.delete(key);
  }
}

describe("the scheduler", () => {
  test("random arrivals and cancellations: texts are right, blocks and tokens conserved, none starves", () => {
    const seed = Number(process.env["INSITU_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
    console.log(`INSITU_SEED=${seed}`);
    let [steps, finished, cancelled, preemptions, refused, displaced, paused] = [0, 0, 0, 0, 0, 0, 0];
    for (let round = 0; steps < wantedSteps; round++) {
      const random = randomBy(seed + round);
      const world = new World(random);
      const rate = 2 + random(4);
      for (let at = 0; at < 100; at++, steps++) {
        while (random(rate) === 0) world.arrive();
        world.step();
        if (world.open.size > 0 && random(12) === 0) {
          world.cancel();
          cancelled++;
        }
      }
      // All that is left comes to its end, each token of it in a step of its own at worst, read again as often as that may be.
      const left = [...world.open.values()].reduce((sum, { most }) => sum + most, 0);
      const bound = left * (2 + world.options.mostPreemptions) + 1;
      for (let at = 0; world.open.size > 0; at++, steps++) {
        expect(at).toBeLessThan(bound);
        world.step();
      }
      expect(world.blocks.available).toBe(world.total);
      expect([world.scheduler.waiting, world.scheduler.running]).toEqual([0, 0]);
      finished += world.finished;
      preemptions += world.scheduler.preemptions;
      refused += world.refused;
      displaced += world.displaced;
      paused += world.paused;
    }
    console.log({ steps, finished, cancelled, preemptions, refused, displaced, paused });
    expect(finished).toBeGreaterThan(wantedSteps / 20);
    expect(Math.min(preemptions, refused, cancelled, displaced)).toBeGreaterThan(0);
    if (soak) expect(paused).toBeGreaterThan(0);
  });
});
