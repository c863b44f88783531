/** Cast and CastLike on WASM: between the 16- and 32-bit floats, and from any type to itself. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
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

/** Casts to the type `to`. */
export const cast: WasmKernel = casting("Cast");

/** Casts to the type of `target_type`. */
export const castLike: WasmKernel = casting("CastLike");
