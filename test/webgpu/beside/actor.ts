// Asks a session what a script says, without waiting where it need not, and compares what comes with what it says alone.
import { InsituError } from "../../../src/base/error.js";
import type { Session } from "../../../src/session/session.js";
import type { State } from "../../../src/session/state.js";
import type { SessionOptions } from "../../../src/session/options.js";
import type { Tensor } from "../../../src/tensor/tensor.js";
import type { Chance } from "../../state/chance.js";
import { largestDifference } from "../../support/compare.js";
import type { CachedModel, Carried } from "./models.js";
import { type Ask, firstRows, type When } from "./script.js";

/** What sessions on one device have in common for a test. */
export interface Stage {
  open(bytes: Uint8Array, options: SessionOptions): Promise<Session>;
  /** Has a neighbour read a tensor: its elements. */
  heard(tensor: Tensor): Promise<Float32Array>;
}

/** A tensor in the header of a saved state. */
interface SavedEntry {
  readonly shape: readonly number[];
  readonly data_offsets: readonly [start: number, end: number];
}

type Results = Readonly<Record<string, Tensor>>;

const tolerance = 1e-4;

/** Who asks one session after another. */
export class Actor {
  readonly #name: string;
  readonly #model: CachedModel;
  readonly #chance: Chance;
  readonly #stage: Stage;
  /** True for one whose memory fails: its answers are right until it says that something failed. */
  readonly #mayFail: boolean;
  #hasFailed = false;
  #session: Session | undefined;
  readonly #states = new Map<number, State>();
  /** The last that was asked of a state. */
  readonly #busy = new Map<number, Promise<unknown>>();
  readonly #saved = new Map<number, Promise<Uint8Array>>();
  readonly #late: (() => Promise<void>)[] = [];
  readonly #releases: Promise<void>[] = [];
  readonly wrong: string[] = [];
  /** Answers that were looked at. */
  compared = 0;

  constructor(name: string, model: CachedModel, chance: Chance, stage: Stage, mayFail = false) {
    this.#name = name;
    this.#model = model;
    this.#chance = chance;
    this.#stage = stage;
    this.#mayFail = mayFail;
  }

  async play(script: readonly Ask[], between: (at: number) => void = () => undefined): Promise<void> {
    for (const [at, ask] of script.entries()) {
      between(at);
      await this.#judged(`${at} ${ask.ask}`, () => this.#do(ask));
      await this.#breathe();
    }
    for (const look of this.#late.splice(0)) await look();
    await this.#judged("release", async () => void (await Promise.all(this.#releases)));
  }

  /** Lets others have the thread, for longer or shorter, or not at all. */
  async #breathe(): Promise<void> {
    const kind = this.#chance.below(6);
    if (kind === 1) await Promise.resolve();
    if (kind === 2) await new Promise((done) => setImmediate(done));
    if (kind === 3) await new Promise((done) => setTimeout(done, this.#chance.below(4)));
  }

  async #judged(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (this.#mayFail && error instanceof InsituError) this.#hasFailed = true;
      else this.wrong.push(`${this.#name} ${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  async #do(ask: Ask): Promise<void> {
    if (ask.ask === "create") {
      this.#session = await this.#stage.open(this.#model.bytes, ask.options);
      return;
    }
    const session = this.#session;
    // One that could not be made is asked nothing.
    if (session === undefined) return;
    if (ask.ask === "release") {
      this.#session = undefined;
      this.#states.clear();
      this.#busy.clear();
      const released = session.release();
      this.#releases.push(released);
      if (ask.isAwaited) await released;
      return;
    }
    if (ask.ask === "state") {
      this.#states.set(ask.state, session.createState());
      return;
    }
    if (ask.ask === "functional") {
      const { pairs, feeds, lengths } = this.#model;
      let { rows, caches } = ask.carried;
      for (const [at, { x, y, after }] of ask.steps.entries()) {
        const results = session.run({ ...feeds(x, rows), ...lengths(rows), ...caches });
        const presents = Object.entries(pairs).map(([past, present]) => [present, after.caches[past].data] as const);
        const expected = Object.fromEntries([["y", y], ...presents]) as Record<string, Float32Array>;
        const look = this.#look(ask.when, results, (given) => this.#compareAll(`functional ${at}`, given, expected));
        // Presents are fed as they came.
        if (at < ask.steps.length - 1) {
          const given = await results;
          caches = Object.fromEntries(Object.entries(pairs).map(([past, present]) => [past, given[present]]));
          ({ rows } = after);
        }
        await look;
      }
      return;
    }
    // Nothing is asked of a state that a run holds, but where that is what is tried.
    await this.#busy.get(ask.state)?.catch(() => undefined);
    const state = this.#states.get(ask.state);
    if (state !== undefined) await this.#doWith(session, state, ask);
    else if (!this.#hasFailed) throw new Error(`there is no state ${ask.state}`);
  }

  async #doWith(session: Session, state: State, ask: Extract<Ask, { readonly state: number }>): Promise<void> {
    const model = this.#model;
    switch (ask.ask) {
      case "run": {
        const results = session.run(model.feeds(ask.x, ask.rows), { state });
        this.#busy.set(ask.state, results);
        return this.#look(ask.when, results, (given) => this.#compareAll("run", given, { y: ask.y }));
      }
      case "start": {
        const started = session.start(model.feeds(ask.x, ask.rows), undefined, { state });
        this.#busy.set(ask.state, started);
        const results = started.then((begun) => begun.results);
        return this.#look(ask.when, results, (given) => this.#compareAll("start", given, { y: ask.y }));
      }
      case "series": {
        let { rows } = ask;
        const all = ask.xs.map((x) => {
          const own = model.feeds(x, rows);
          rows += x.length / model.rowSize;
          return own;
        });
        const started = session.startSeries(all[0], all.slice(1), ["y"], { state });
        this.#busy.set(ask.state, started);
        const results = started.then((begun) => begun.results);
        return this.#look(ask.when, results, async (given) => {
          for (const [at, each] of given.entries()) await this.#compareAll(`series ${at}`, each, { y: ask.ys[at] });
        });
      }
      case "fork":
        this.#states.set(ask.to, state.fork());
        return;
      case "save": {
        const saved = state.save();
        this.#saved.set(ask.to, saved);
        return this.#look(ask.when, saved, async (bytes) => this.#compareSaved(bytes, ask.carried));
      }
      case "restore": {
        const bytes = await this.#saved.get(ask.from)!;
        const restored = state.restore(bytes);
        this.#busy.set(ask.state, restored);
        return this.#look("late", restored, async () => undefined);
      }
      case "set":
        for (const [name, tensor] of Object.entries(ask.caches)) state.set(name, tensor);
        // What is not written again is what it was: lengths are the state's own business.
        return;
      case "rewind":
        state.rewind(ask.rows);
        return;
      case "read": {
        const shown = state.get(ask.cache);
        const { dims } = shown;
        return this.#look(ask.when, shown.getData(), async (data) =>
          this.#compare("read", firstRows(data as Float32Array, dims, ask.count), ask.rows),
        );
      }
      case "refuse":
        return this.#refuse(session, state, ask);
      case "state":
        return;
      case "drop":
        this.#states.delete(ask.state);
        state.release();
        return;
      default:
        ask satisfies never;
    }
  }

  /** Of a saved state, as safetensors lays it out: each cache as far as it was saved, which is as far as it has rows at least. */
  #compareSaved(bytes: Uint8Array, { caches, rows }: Carried): void {
    const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size))) as Record<string, SavedEntry>;
    for (const [name, { data, dims }] of Object.entries(caches)) {
      const { shape, data_offsets: ends } = header[name];
      const found = new Float32Array(bytes.slice(8 + size + ends[0], 8 + size + ends[1]).buffer);
      const [, , count] = shape;
      if (count < rows || count > dims[2]) this.#tell(`save: ${count} of ${dims[2]} rows, of which ${rows} are valid`);
      this.#compare("save", found, firstRows(data as Float32Array, dims, count));
    }
  }

  async #refuse(session: Session, state: State, ask: Extract<Ask, { readonly ask: "refuse" }>): Promise<void> {
    const right = this.#model.feeds(ask.x, ask.rows);
    const expectRefusal = async (run: Promise<unknown>): Promise<void> => {
      const outcome = await run.then(
        () => "was not refused",
        (error: unknown) => (error instanceof InsituError ? undefined : `failed with ${String(error)}`),
      );
      this.compared++;
      if (outcome !== undefined) throw new Error(outcome);
    };
    if (ask.how === "name") return expectRefusal(session.run({ nobody: right["x"] }, { state }));
    if (ask.how === "shape") {
      const flat = right["x"].reshape([right["x"].size]);
      return expectRefusal(session.run({ ...right, x: flat }, { state }));
    }
    const results = session.run(right, { state });
    const second = session.run(right, { state });
    this.#busy.set(ask.state, results);
    await expectRefusal(second);
    return this.#look("late", results, (given) => this.#compareAll("run beside a refusal", given, { y: ask.y }));
  }

  /** Looks at what comes: now, when all is over, or never. */
  async #look<T>(when: When, coming: Promise<T>, compare: (given: T) => Promise<void>): Promise<void> {
    coming.catch(() => (this.#hasFailed = true));
    const look = (): Promise<void> => this.#judged("answer", async () => compare(await coming));
    if (when === "now") await look();
    else if (when === "late") this.#late.push(look);
    else
      void coming.then(
        (given) => {
          if (typeof given === "object" && given !== null && "y" in given) (given as { y: Tensor }).y.dispose();
        },
        () => undefined,
      );
  }

  async #compareAll(what: string, given: Results, expected: Readonly<Record<string, Float32Array>>): Promise<void> {
    for (const [name, data] of Object.entries(expected)) {
      const tensor = given[name];
      // A neighbour may be the one who reads it.
      const isHeard = this.#chance.of(0.15) && tensor.size > 0;
      const found = isHeard ? await this.#stage.heard(tensor) : ((await tensor.getData()) as Float32Array);
      this.#compare(`${what}: ${name} (${tensor.location})`, found, data);
    }
  }

  #compare(what: string, found: Float32Array, expected: Float32Array): void {
    this.compared++;
    const gap = largestDifference(found, expected);
    if (!(gap <= tolerance))
      this.#tell(`${what}: [${found.slice(0, 8).join()}] and not [${expected.slice(0, 8).join()}]`);
  }

  /** Something is wrong, unless the session has told that it failed. */
  #tell(problem: string): void {
    if (!this.#mayFail || !this.#hasFailed) this.wrong.push(`${this.#name} ${problem}`);
  }
}
