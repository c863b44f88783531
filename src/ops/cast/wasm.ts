/** Cast and CastLike on WASM: between all types of whole bytes but the 8-bit floats, and from any type to itself. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { wasmFamily, type WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements, type ElementsCall, kindOf } from "../shared/wasm/elements.js";
import { expressible, operand, recordExpression } from "../shared/wasm/elementwise.js";
import { movable, recordMoves, whole } from "../shared/wasm/move.js";
import { codeOf, floatsOnly, partsFor } from "../shared/wasm/work.js";
import { Cast, Cast19, Cast6, CastLike, CastLike15, CastLike19 } from "./op.js";

interface Casting {
  readonly input: Operand;
  readonly output: Operand;
}

/** Between floats, and from any type to itself. */
const casting = wasmFamily<Casting>({
  accepts({ input, output }) {
    if (input.type === output.type) return movable([{ from: whole(input), to: whole(output) }]);
    const types = floatsOnly([input, output]);
    if (types !== true || (input.contiguous && output.contiguous)) return types;
    return expressible(operand(input), output);
  },
  record({ input, output }, recorder) {
    if (input.type === output.type) recordMoves(recorder, [{ from: whole(input), to: whole(output) }]);
    else if (!input.contiguous || !output.contiguous) recordExpression(recorder, operand(input), output);
    else {
      const count = output.view.size;
      recorder.run(
        "convert",
        {
          source: recorder.address(input),
          target: recorder.address(output),
          sourceType: codeOf(input.type),
          targetType: codeOf(output.type),
          count,
        },
        partsFor(recorder, count * 0.5),
      );
    }
  },
});

/** Between any two different types: integers keep the bits that fit, floats are truncated or rounded once. */
const converted = ({ input, output }: Casting): ElementsCall | string =>
  input.type === output.type
    ? "the types are the same"
    : { operation: "copy", kind: kindOf(input.type), inputs: [input], output };

const casts = [Cast6, Cast19, Cast] as const;
const likes = [CastLike15, CastLike19, CastLike] as const;

const castOf = ({
  inputs: { input },
  outputs: { output },
}: CallOf<(typeof casts | typeof likes)[number]>): Casting => ({ input, output });

/** Casts to the type `to`. */
export const cast: readonly WasmKernel[] = [casting(casts, castOf), elements(casts, (call) => converted(castOf(call)))];

/** Casts to the type of `target_type`. */
export const castLike: readonly WasmKernel[] = [
  casting(likes, castOf),
  elements(likes, (call) => converted(castOf(call))),
];
