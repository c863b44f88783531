/** Identity: the operand itself. */
import { view } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { contentsOf } from "../contents.js";
import { sameShapeAs } from "../shapes.js";
import { copyUnlessShared } from "../share.js";
import { anyType } from "../types.js";

/** Hands on its operand. */
export const Identity = defineOp({
  name: "Identity",
  since: 1,
  types: { V: anyType },
  inputs: { input: tensor("V") },
  outputs: { output: tensor("V") },
  effects: { output: view("input") },
  infer: sameShapeAs("input", "output"),
  integers: ({ inputs }) => contentsOf(inputs.input),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.input, outputs.output),
});
