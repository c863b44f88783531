/** Constant: a tensor that the node itself holds. */
import { bigint, bigints, float, floats, string, strings, tensorValue } from "../../graph/attribute.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { View } from "../../tensor/view.js";
import { copyView } from "../../tensor/copy.js";
import { contentsOf } from "../shared/rules/contents.js";
import { anyType } from "../shared/rules/types.js";

interface Values {
  readonly sparse_value: View | undefined; // dense by the time it gets here
  readonly value: View | undefined;
  readonly value_float: number | undefined;
  readonly value_floats: readonly number[] | undefined;
  readonly value_int: bigint | undefined;
  readonly value_ints: readonly bigint[] | undefined;
  readonly value_string: string | undefined;
  readonly value_strings: readonly string[] | undefined;
}

/** The one value among the attributes. */
function valueOf(call: CallContext, attrs: Values): View {
  const given = Object.entries(attrs).filter(([, value]) => value !== undefined);
  call.check(
    given.length === 1,
    () => `takes exactly one attribute, got ${given.length === 0 ? "none" : given.map(([name]) => name).join(", ")}`,
    "invalid-argument",
  );
  const { value_float, value_floats, value_int, value_ints, value_string, value_strings } = attrs;
  if (value_float !== undefined) return new View("float32", [], Float32Array.of(value_float));
  if (value_floats !== undefined) return new View("float32", [value_floats.length], Float32Array.from(value_floats));
  if (value_int !== undefined) return new View("int64", [], BigInt64Array.of(value_int));
  if (value_ints !== undefined) return new View("int64", [value_ints.length], BigInt64Array.from(value_ints));
  if (value_string !== undefined) return new View("string", [], [value_string]);
  if (value_strings !== undefined) return new View("string", [value_strings.length], [...value_strings]);
  return (attrs.value ?? attrs.sparse_value)!;
}

/** The tensor of whichever attribute is given. */
export const Constant = defineOp({
  name: "Constant",
  since: 1,
  types: { T: anyType },
  inputs: {},
  outputs: { output: tensor("T") },
  attrs: {
    sparse_value: tensorValue(),
    value: tensorValue(),
    value_float: float(),
    value_floats: floats(),
    value_int: bigint(),
    value_ints: bigints(),
    value_string: string(),
    value_strings: strings(),
  },
  infer(call) {
    const constant = valueOf(call, call.attrs);
    const { type, shape } = constant;
    return { output: { type, shape, integers: contentsOf({ type, shape, constant }) } };
  },
  reference: (call) => copyView(valueOf(call, call.attrs), call.outputs.output),
});
