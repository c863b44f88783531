/** Identity: the operand itself. */
import { view } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { contentsOf } from "../shared/rules/contents.js";
import { sameShapeAs } from "../shared/rules/shapes.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { anyType } from "../shared/rules/types.js";

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
