/**
 * Cases of ONNX's suite whose expected values are themselves off by more than the tolerance beside them. They are compared with the tolerance that ONNX
 * takes when it runs its own reference over its suite (onnx/test/test_backend_reference.py); a case that says a tolerance of its own keeps it.
 */

interface Allowance {
  readonly atol: number;
  readonly reason: string;
}

/** NumPy transforms complex64 in float32, and how its sums are rounded depends on the machine that wrote the case. */
const transformed: Allowance = {
  atol: 1e-6,
  reason: "ONNX's run of its own reference takes atol 1e-6: sums that are 0 are expected as NumPy's float32 left them",
};

const allowances: Readonly<Record<string, Allowance>> = {
  test_dft_inverse: transformed,
  test_dft_inverse_opset19: transformed,
};

/** The allowance of a case, by its name or its path. */
export const allowanceOf = (name: string): Allowance | undefined => {
  const last = name.split(/[/\\]/).at(-1)!;
  return Object.hasOwn(allowances, last) ? allowances[last] : undefined;
};
