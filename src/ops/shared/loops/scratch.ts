/** Working arrays for the references. Unlike the bare constructors they fail with an InsituError when memory runs out. */
import { View } from "../../../tensor/view.js";

/** A zeroed float64 array. */
export const float64Scratch = (count: number): Float64Array => View.allocate("float64", [count]).data as Float64Array;

/** A zeroed int32 array. */
export const int32Scratch = (count: number): Int32Array => View.allocate("int32", [count]).data as Int32Array;

/** A zeroed int64 array. */
export const int64Scratch = (count: number): BigInt64Array => View.allocate("int64", [count]).data as BigInt64Array;
