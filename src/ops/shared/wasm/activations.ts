/** Expressions of activation functions that several operators share. */
import { apply, type Expression, number } from "./elementwise.js";

/** x·sigmoid(alpha·x). */
export const scaledSigmoid = (x: Expression, alpha: number): Expression =>
  alpha === 1 ? apply("silu", x) : apply("multiply", x, apply("sigmoid", apply("multiply", x, number(alpha))));
