/** Pow on WASM: floats to a small constant whole power. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { readNumbers } from "../../tensor/access.js";
import { apply, elementwise, type Expression, number, operand } from "../shared/wasm/elementwise.js";
import { Pow } from "./op.js";

/** x to a power, by multiplication. */
function power(x: Expression, exponent: number): Expression | string {
  switch (exponent) {
    case 0:
      return number(1);
    case 1:
      return x;
    case 2:
      return apply("square", x);
    case 3:
      return apply("multiply", apply("square", x), x);
    case 4:
      return apply("square", apply("square", x));
    case -1:
      return apply("reciprocal", x);
    default:
      return `there is no kernel for the exponent ${exponent}`;
  }
}

/** X^Y for a Y that is the same number everywhere. */
export const pow: WasmKernel = elementwise([Pow], ({ inputs: { X, Y }, outputs: { Z } }) => {
  if (!Y.known || Y.view.size !== 1) return "the exponent is not one constant number";
  const value = power(operand(X), Number(readNumbers(Y.view)[0]));
  return typeof value === "string" ? value : { output: Z, value };
});
