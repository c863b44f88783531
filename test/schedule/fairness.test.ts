// One tenant floods, others come now and then: proved by counts of steps on the scheduler alone, over pools and budgets of every size. The seed is
// printed; INSITU_SEED repeats one, INSITU_SOAK runs more worlds.
import { describe, expect, test } from "vitest";
import { FairPlaces } from "../../packages/schedule/fair-places.js";
import { Scheduler, type SchedulerOptions } from "../../packages/schedule/scheduler.js";
import { MockBlocks } from "./mock-blocks.js";
import { soak } from "../support/soak.js";

interface Held {
  readonly id: string;
  readonly tenant: string;
  readonly priority: number;
  readonly most: number;
  firstStep: number | undefined;
  lastStep: number | undefined;
  readonly came: number;
}

/** A server in steps: places in the queue before a scheduler, over blocks. */
class Line {
  readonly blocks: MockBlocks;
  readonly scheduler: Scheduler;
  readonly places: FairPlaces<Held>;
  readonly open = new Map<string, Held>();
  readonly running = new Set<Held>();
  readonly capacity: number;
  /** Texts that came to their end, by tenant. */
  readonly finished = new Map<string, number>();
  steps = 0;
  reread = 0;
  #named = 0;

  constructor(options: SchedulerOptions, blocks: number, queue: number) {
    this.blocks = new MockBlocks(blocks, options.blockSize);
    this.scheduler = new Scheduler(options, this.blocks);
    this.places = new FairPlaces(queue);
    this.capacity = queue;
  }

  /** Asks for texts together; undefined where they are refused. Those that gave way are gone. */
  ask(tenant: string, length: number, more: number, count = 1): Held[] | undefined {
    const taken: Held[] = [];
    for (let at = 0; at < count; at++) {
      const id = `${tenant} ${this.#named++}`;
      const held = {
        id,
        tenant,
        priority: 0,
        most: length + more,
        came: this.steps,
        firstStep: undefined,
        lastStep: undefined,
      };
      const yielding = this.places.take(held, count - 1 - at);
      // All are taken, or none.
      if (yielding === undefined) {
        expect(at).toBe(0);
        return undefined;
      }
      for (const other of yielding) this.#end(other);
      // No two texts have a beginning in common.
      this.blocks.add(
        id,
        id,
        Array.from({ length }, (_, index) => index),
      );
      this.scheduler.add({ id, tenant, priority: 0, length, most: held.most });
      this.open.set(id, held);
      taken.push(held);
    }
    return taken;
  }

  /** One step; `planned` hears when it is known who runs in it. */
  step(planned: () => void = () => {}): void {
    const { admitted, parts, displaced, preempted, paused, resumed } = this.scheduler.plan();
    for (const id of [...preempted, ...displaced, ...paused]) this.running.delete(this.open.get(id)!);
    for (const id of [...admitted.map((each) => each.id), ...resumed]) this.running.add(this.open.get(id)!);
    planned();
    this.steps++;
    this.reread += displaced.length + preempted.length;
    for (const { id } of admitted) this.places.leave(this.open.get(id)!);
    for (const { id, from, count } of parts) this.blocks.read(id, from, count);
    for (const { id, isLast } of parts) {
      this.blocks.publish(id);
      if (!isLast) continue;
      const held = this.open.get(id)!;
      held.firstStep ??= this.steps;
      this.blocks.tokens(id).push(7);
      if (this.blocks.tokens(id).length < held.most) continue;
      held.lastStep = this.steps;
      this.finished.set(held.tenant, (this.finished.get(held.tenant) ?? 0) + 1);
      this.#end(held);
    }
    this.scheduler.commit();
  }

  #end(held: Held): void {
    this.places.leave(held);
    this.running.delete(held);
    this.scheduler.remove(held.id);
    this.blocks.forget(held.id);
    this.open.delete(held.id);
  }
}

const options: SchedulerOptions = {
  blockSize: 16,
  tokenBudget: 256,
  mostRunning: 16,
  watermark: 2,
  mostPreemptions: 3,
};

describe("a tenant that floods", () => {
  test.each([
    { what: "long texts on few blocks", blocks: 128, prompt: 4, more: 400 },
    { what: "long prompts", blocks: 128, prompt: 400, more: 40 },
    { what: "many blocks: only places are short", blocks: 2048, prompt: 30, more: 400 },
    { what: "prompts that fill the pool", blocks: 34, prompt: 250, more: 200 },
  ])("keeps nobody waiting: $what", ({ blocks, prompt, more }) => {
    const line = new Line(options, blocks, 256);
    const flood = (): void => {
      while (line.ask("flood", prompt, more, 2) !== undefined);
    };
    const others = Array.from({ length: 63 }, (_, at) => `tenant ${at}`);
    const asked: Held[] = [];
    for (let step = 0; step < 900; step++) {
      flood();
      if (step % 7 === 0) {
        const taken = line.ask(others[(step / 7) % 63], 3, 4);
        expect(taken, "a tenant that has nothing in the queue is taken").toBeDefined();
        asked.push(taken![0]);
      }
      line.step();
    }
    const done = asked.filter(({ came }) => came < 880);
    // A step for its prompt, one for each further token, and one that is for all among them; two more where somebody must give blocks up first.
    for (const { came, firstStep, lastStep } of done) {
      expect(firstStep! - came).toBeLessThanOrEqual(4);
      expect(lastStep! - came).toBeLessThanOrEqual(8);
    }
    expect(done.length).toBeGreaterThan(120);
    // Who floods goes on as well.
    expect(line.finished.get("flood")).toBeGreaterThan(1);
  });

  test("has the queue alone, and gives way to those that have less of it", () => {
    const line = new Line(options, 128, 64);
    for (let at = 0; at < 64; at++) expect(line.ask("flood", 4, 400)).toBeDefined();
    expect(line.ask("flood", 4, 400)).toBeUndefined();
    // Together or not at all: 16 of one request beside 48 that stay.
    expect(line.ask("second", 4, 10, 16)).toHaveLength(16);
    expect([line.places.takenBy("flood"), line.places.takenBy("second")]).toEqual([48, 16]);
    expect(line.ask("second", 4, 10, 16)).toHaveLength(16);
    expect([line.places.takenBy("flood"), line.places.takenBy("second")]).toEqual([32, 32]);
    expect(line.ask("second", 4, 10)).toBeUndefined();
    expect(line.ask("third", 4, 10, 22)).toBeUndefined();
    expect([line.places.takenBy("flood"), line.places.takenBy("second")]).toEqual([32, 32]);
    expect(line.ask("third", 4, 10, 21)).toHaveLength(21);
    expect([line.places.taken, line.places.takenBy("third")]).toEqual([64, 21]);
    // The last that came have gone: the first are those that run.
    line.step();
    expect(line.scheduler.running).toBe(16);
  });

  test("makes way for a text at a time, not for good: of two that want everything each has half", () => {
    const line = new Line(options, 2048, 512);
    const made = { a: 0, b: 0 };
    for (let at = 0; at < 200; at++) line.ask("a", 8, 60);
    for (let step = 0; step < 40; step++) line.step();
    for (let at = 0; at < 200; at++) line.ask("b", 8, 60);
    for (let step = 0; step < 400; step++) {
      const before = [...line.open.values()];
      line.step();
      if (step < 100) continue;
      for (const { id, tenant } of before) if (!line.open.has(id)) made[tenant as "a" | "b"]++;
    }
    expect(Math.abs(made.a - made.b)).toBeLessThanOrEqual(16);
    expect(made.a + made.b).toBeGreaterThan(70);
    // Who pauses reads nothing again.
    expect(line.reread).toBe(0);
  });
});

describe("shares", () => {
  test("whoever has less than a share of the queue is taken; whoever waits has at most one text fewer running, where there are blocks", () => {
    const seed = Number(process.env["INSITU_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
    console.log(`INSITU_SEED=${seed}`);
    let state = seed >>> 0;
    const random = (below: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    for (let world = 0; world < (soak ? 200 : 12); world++) {
      const mostRunning = 2 + random(12);
      const line = new Line({ ...options, mostRunning }, 4096, 1 + random(40));
      const most = 1 + random(40);
      const tenants = Array.from({ length: 2 + random(8) }, (_, at) => `tenant ${at}`);
      for (let step = 0; step < 120; step++) {
        for (let asks = random(6); asks > 0; asks--) {
          // The first asks as often as all others together.
          const tenant = random(2) === 0 ? tenants[0] : tenants[random(tenants.length)];
          const count = 1 + random(4);
          const before = line.places.takenBy(tenant);
          const present = new Set([tenant, ...tenants.filter((each) => line.places.takenBy(each) > 0)]).size;
          const capacity = line.capacity;
          const taken = line.ask(tenant, 1 + random(20), 1 + random(most), count);
          if (before + count <= Math.floor(capacity / present)) expect(taken).toBeDefined();
        }
        line.step(() => {
          const running = (tenant: string): number => [...line.running].filter((each) => each.tenant === tenant).length;
          const waiting = [...line.open.values()].filter((each) => !line.running.has(each));
          for (const tenant of new Set(waiting.map((each) => each.tenant)))
            for (const other of tenants)
              expect(running(other), `${other} beside ${tenant}`).toBeLessThanOrEqual(running(tenant) + 1);
        });
      }
    }
  });
});
