/** Cast and CastLike on WASM: between all types of whole bytes but the 8-bit floats, and from any type to itself. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements, kindOf } from "../wasm-elements.js";
import { expressible, operand, recordExpression } from "../wasm-elementwise.js";
import { movable, recordMoves, whole } from "../wasm-move.js";
import { codeOf, floatsOnly, partsFor } from "../wasm-work.js";

const casting = (op: string): WasmKernel => ({
  op,
  accepts({ inputs: [input], outputs: [output] }) {
    if (input!.type === output!.type) return movable([{ from: whole(input!), to: whole(output!) }]);
    const types = floatsOnly([input, output]);
    if (types !== true || (input!.contiguous && output!.contiguous)) return types;
    return expressible(operand(input!), output!);
  },
  record({ inputs, outputs }, recorder) {
    const [input, output] = [inputs[0]!, outputs[0]!];
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
const converting = (op: string): WasmKernel =>
  elements(op, ({ inputs: [input], outputs: [output] }) =>
    input!.type === output!.type
      ? "the types are the same"
      : { operation: "copy", kind: kindOf(input!.type), inputs: [input!], output: output! },
  );

/** Casts to the type `to`. */
export const cast: WasmKernel = casting("Cast");

/** Casts between any other two types. */
export const castAnything: WasmKernel = converting("Cast");

/** Casts to the type of `target_type`. */
export const castLike: WasmKernel = casting("CastLike");

/** The same for any other two types. */
export const castLikeAnything: WasmKernel = converting("CastLike");
