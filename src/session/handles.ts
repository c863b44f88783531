/**
 * Presents that stay inside: the caches of one conversation, and the tensors that show their first rows as the model's own presents. Rows that
 * a living tensor shows are never written again; whoever goes on from fewer rows asks whether any does. Runs nothing.
 */
import { cloneView } from "../tensor/copy.js";
import { Lender } from "../tensor/lender.js";
import type { Placed } from "../tensor/placed.js";
import { isTensor, lenderOf, lentTensor, Tensor } from "../tensor/tensor.js";
import { type TensorLike, tensorOf } from "../tensor/tensor-like.js";
import { hostView, type View } from "../tensor/view.js";
import type { Holding } from "./holding.js";
import type { State } from "./state.js";
import { isSlot, placeInSlot, type SlotOwner } from "./slots.js";

/** A past that is kept inside, and the present that shows it. */
export interface KeptCache {
  readonly input: string;
  readonly output: string;
  /** The axis of its rows. */
  readonly axis: number;
}

/** The caches of one conversation, on one form of the model. They are let go of when no tensor shows them and no run holds them. */
export class KeptState<Form = unknown> {
  /** Replaced by a larger one when its rows are all taken. */
  state: State;
  /** Whose tensors show its rows: a conversation belongs to one session. */
  readonly owner: object;
  /** Whose runs write them. */
  readonly form: Form;
  /** By a number of rows: how many runs have living tensors that show that many. */
  readonly #shown = new Map<number, number>();
  /** The most rows that any may show. */
  #most = 0;
  readonly #caches: readonly KeptCache[];
  readonly #ended: () => void;
  #runs = 0;
  /** True once the caches were given back. */
  #isOver = false;
  /** The rows on the host, by input, once the caches were given back before their tensors were. */
  #spilled: ReadonlyMap<string, View> | undefined;

  /** `ended` is called when the state was given back. */
  constructor(owner: object, form: Form, state: State, caches: readonly KeptCache[], ended: () => void) {
    this.owner = owner;
    this.form = form;
    this.state = state;
    this.#caches = caches;
    this.#ended = ended;
  }

  /** True if a tensor may show rows behind the first `rows`. */
  shows(rows: number): boolean {
    return this.#most > rows;
  }

  /** Tensors that show the first rows of the caches named, in their order. */
  show(rows: number, caches: readonly KeptCache[]): readonly Tensor[] {
    const shown = new ShownRows(this, rows);
    this.#shown.set(rows, (this.#shown.get(rows) ?? 0) + 1);
    this.#most = Math.max(this.#most, rows);
    const hold = new Hold();
    dropped.register(hold, shown);
    let dims: readonly number[] = [];
    return caches.map((cache) => {
      const { shape } = this.state.cache(cache.input).buffer;
      // Most caches are alike.
      if (!isWithRows(dims, shape, cache.axis, rows)) dims = Object.freeze(shape.with(cache.axis, rows));
      return lentTensor(new Handle(shown, hold, cache, dims));
    });
  }

  /** True once its caches were given back, and its rows are the host's. */
  get isSpilled(): boolean {
    return this.#spilled !== undefined;
  }

  /** The first rows of a cache. */
  rowsOf({ input, axis }: KeptCache, rows: number): Placed {
    const whole: Placed = this.#spilled?.get(input) ?? this.state.cache(input).buffer;
    return whole.slice(axis, 0, rows);
  }

  /** Gives the caches back and keeps what tensors show of them in arrays of the host, which are collected with those; false during a run. */
  spill(): boolean {
    if (this.#runs > 0 || this.isSpilled) return false;
    this.#keepOnHost(this.#caches.map((cache) => cloneView(hostView(this.rowsOf(cache, this.#most)))));
    return true;
  }

  /** The same where they cannot be looked at. No run may be under way or come. */
  async bringOut(): Promise<void> {
    const rows = this.#caches.map((cache) => {
      const holding = this.state.cache(cache.input);
      return holding.read(this.rowsOf(cache, this.#most));
    });
    const read = await Promise.all(rows);
    if (!this.#isOver) this.#keepOnHost(read);
  }

  #keepOnHost(rows: readonly View[]): void {
    this.#spilled = new Map(this.#caches.map(({ input }, at) => [input, rows[at]] as const));
    this.#end();
  }

  /** Keeps the caches while a run goes on; `unhold` ends that. */
  hold(): void {
    this.#runs++;
  }

  unhold(): void {
    this.#runs--;
    this.#settle();
  }

  /** Hears that no tensor shows these rows any more. */
  drop({ rows }: ShownRows): void {
    const left = this.#shown.get(rows)! - 1;
    if (left > 0) this.#shown.set(rows, left);
    else this.#shown.delete(rows);
    if (left === 0 && rows === this.#most) this.#most = [...this.#shown.keys()].reduce((a, b) => Math.max(a, b), 0);
    this.#settle();
  }

  #settle(): void {
    if (this.#runs === 0 && this.#shown.size === 0) this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.state.release();
    this.#ended();
  }
}

/** True for a shape that is another with so many rows. */
function isWithRows(dims: readonly number[], shape: readonly number[], rowAxis: number, rows: number): boolean {
  if (dims.length !== shape.length) return false;
  for (let axis = 0; axis < dims.length; axis++)
    if (dims[axis] !== (axis === rowAxis ? rows : shape[axis])) return false;
  return true;
}

/** What one run left: as many rows of every cache, shown by tensors that are alive. Knows none of them, so that they can be dropped. */
class ShownRows {
  readonly conversation: KeptState;
  readonly rows: number;
  #tensors = 0;
  #isOver = false;

  constructor(conversation: KeptState, rows: number) {
    this.conversation = conversation;
    this.rows = rows;
  }

  add(): void {
    this.#tensors++;
  }

  remove(): void {
    this.#tensors--;
    if (this.#tensors === 0) this.end();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.conversation.drop(this);
  }
}

/** What the tensors of one run have in common, and nobody else has: it is collected with the last of them. */
class Hold {}

/** Tensors that were dropped without `dispose`. */
const dropped = new FinalizationRegistry<ShownRows>((shown) => {
  try {
    shown.end();
  } catch {
    // The backend cannot take its memory back, and there is nobody to tell.
  }
});

/** Elements that stay inside, as a tensor shows them: nobody changes them but through an array that was lent. */
export abstract class Inside extends Lender {
  /** Whose memory they are in. */
  abstract readonly owner: object;
  /** True if the caller has an array of its elements, which count from then on. */
  abstract readonly isLent: boolean;
}

/** A present as a tensor shows it. */
class Handle extends Inside {
  readonly type: Lender["type"];
  readonly shape: readonly number[];
  readonly cache: KeptCache;
  readonly shown: ShownRows;
  /** Undefined once the tensor was disposed. */
  #hold: Hold | undefined;
  /** The caller's own array, once there is one: it may be written. */
  #lent: View | undefined;

  constructor(shown: ShownRows, hold: Hold, cache: KeptCache, shape: readonly number[], lent?: View) {
    super();
    shown.add();
    this.shown = shown;
    this.#hold = hold;
    this.cache = cache;
    this.#lent = lent;
    this.type = this.place.type;
    this.shape = shape;
  }

  /** The host once the caches were given back. */
  get location(): Lender["location"] {
    return this.shown.conversation.isSpilled ? "cpu" : this.#holding.location;
  }

  get owner(): object {
    return this.shown.conversation.owner;
  }

  get isLent(): boolean {
    return this.#lent !== undefined;
  }

  /** The rows in the cache. */
  get place(): Placed {
    return this.shown.conversation.rowsOf(this.cache, this.shown.rows);
  }

  get #holding(): Holding {
    return this.shown.conversation.state.cache(this.cache.input);
  }

  check(): void {
    if (this.#lent === undefined) void this.place;
  }

  view(): View {
    return this.#lent ?? cloneView(hostView(this.place));
  }

  lend(): View {
    return (this.#lent ??= cloneView(hostView(this.place)));
  }

  async read(): Promise<View> {
    const { place } = this;
    return this.shown.conversation.isSpilled ? cloneView(hostView(place)) : this.#holding.read(place);
  }

  override again(): Lender {
    // One array for both, as tensors of the host have it.
    if (this.location === "cpu") this.lend();
    return new Handle(this.shown, this.#hold!, this.cache, this.shape, this.#lent);
  }

  override disposed(): void {
    if (this.#hold !== undefined) this.shown.remove();
    this.#hold = undefined;
  }
}

/** What a tensor shows of what stays inside, under its own dims. */
export function insideOf(tensor: unknown): Inside | undefined {
  const lender = lenderOf(tensor);
  return lender instanceof Inside && lender.shape === (tensor as Tensor).dims ? lender : undefined;
}

/** A present that is fed as it came: of which cache, in which run, and where its rows are. */
type FedHandle = Pick<Handle, "cache" | "shown" | "shape" | "place">;

/** The handle behind a tensor of this owner's; undefined for others, and where the caller may have written its elements. */
export function fedHandle(tensor: unknown, owner: object): FedHandle | undefined {
  const inside = insideOf(tensor);
  return inside instanceof Handle && !inside.isLent && inside.owner === owner ? inside : undefined;
}

/**
 * The feeds with every present that stays on a device as a tensor of the host, but for those of one owner, and so with results that another
 * session left on a device; the others as they are now. Undefined where there is nothing to bring.
 */
export function broughtToHost(
  feeds: unknown,
  session: SlotOwner,
  but?: object,
): Promise<Record<string, TensorLike>> | undefined {
  if (typeof feeds !== "object" || feeds === null) return undefined;
  const entries = Object.entries(feeds as Record<string, TensorLike>);
  const isAway = (tensor: unknown): tensor is Tensor =>
    isTensor(tensor) &&
    tensor.location === "gpu-buffer" &&
    (lenderOf(tensor) instanceof Inside
      ? but === undefined || insideOf(tensor)?.owner !== but
      : isSlot(tensor) && placeInSlot(tensor, session) === undefined);
  if (!entries.some(([, tensor]) => isAway(tensor))) return undefined;
  // All are asked for before the first is waited for.
  const brought = entries.map(async ([name, tensor]): Promise<[string, TensorLike]> => {
    if (isAway(tensor)) return [name, new Tensor(tensor.type, await tensor.getData(), tensor.dims)];
    return [name, asItIs(tensor)];
  });
  return Promise.all(brought).then((all) => Object.fromEntries(all));
}

/** A tensor of the host as it is now, whatever the caller does with its array; a present that stays inside is nobody's to change. */
export function asItIs(given: TensorLike): TensorLike {
  const tensor = isTensor(given) ? given : foreign(given);
  if (tensor === undefined || tensor.location !== "cpu") return given;
  return insideOf(tensor)?.isLent === false ? tensor : Tensor.fromView(cloneView(tensor.toView()));
}

/** A tensor that another package made; undefined for what is none: it is refused by its name where it is read. */
function foreign(given: unknown): Tensor | undefined {
  try {
    return tensorOf(given, "a feed");
  } catch {
    return undefined;
  }
}

/** Before a run writes a present that the caller gives it as a target: its elements are the caller's own from then on. */
export function lendTarget(tensor: Tensor | null): void {
  const inside = insideOf(tensor);
  if (inside?.location === "cpu") inside.lend();
}
