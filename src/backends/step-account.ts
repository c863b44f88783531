/** How a backend says that a step runs. What tells it to people is in the room `explain`. */

/** How a step runs. */
export interface StepAccount {
  /** `nothing`: its output shows its input, and nothing is left to do; `beforehand`: the shapes alone decide the result. */
  readonly runs: "kernel" | "reference" | "nothing" | "beforehand";
  /** The kernels' names, where they are known. */
  readonly kernels?: readonly string[];
  /** Why the reference does it, or did it once. */
  readonly reasons?: readonly string[];
}

/** The account of a step whose shapes data decide. */
export const dynamicStep: StepAccount = { runs: "reference", reasons: ["data decide its shapes"] };
