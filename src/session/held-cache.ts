/** A cache of a state as the tensors of `state.get` show it: the bytes that runs write, not a copy. */
import { InsituError } from "../base/error.js";
import type { ElementType } from "../tensor/element-type.js";
import { Lender, type TensorLocation } from "../tensor/lender.js";
import { sameNumbers, type View } from "../tensor/view.js";
import type { Holding } from "./holding.js";

/** A cache as tensors show it, for as long as `check` lets them and the reserve is the same. */
export class HeldCache extends Lender {
  readonly type: ElementType;
  readonly shape: readonly number[];
  readonly location: TensorLocation;
  readonly #holding: Holding;
  readonly #check: () => void;
  readonly #lent: () => void;

  /** `lent` is called when somebody gets an array of it. */
  constructor(holding: Holding, check: () => void, lent: () => void) {
    super();
    this.type = holding.type;
    this.shape = holding.buffer.shape;
    this.location = holding.location;
    this.#holding = holding;
    this.#check = check;
    this.#lent = lent;
  }

  check(): void {
    this.#check();
    const { name, buffer } = this.#holding;
    if (sameNumbers(this.shape, buffer.shape)) return;
    throw new InsituError(
      "invalid-state",
      `cache "${name}" was [${this.shape.join(",")}] and is [${buffer.shape.join(",")}] since it has grown: ask state.get again`,
    );
  }

  view(): View {
    this.check();
    return this.#holding.shown;
  }

  lend(): View {
    this.check();
    this.#lent();
    return this.#holding.lend();
  }

  async read(): Promise<View> {
    this.check();
    return this.#holding.read(this.#holding.buffer);
  }
}
