/** Scan of opset 8: batches of sequences, which may differ in length. */
import { graph, int, ints, required } from "../../graph/attribute.js";
import { type Dim, unknownDim } from "../../graph/dim.js";
import { type Fact, factText } from "../../graph/fact.js";
import { defineOp, optional, type OutputFact, tensor, variadic } from "../../graph/op.js";
import { readBigInts } from "../../tensor/access.js";
import { contiguous, copyView } from "../../tensor/copy.js";
import { fillView, zeroOf } from "../shared/loops/fill.js";
import { classicTypes } from "../shared/rules/plain-types.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { checkSameElement, elementAt, emptied, outputOf, outputsOf, stackInto } from "./body.js";
import { checkDirections, inferElements, parted, runBody } from "./scan-body.js";

/** Runs `body` for each element of batches of sequences, each sequence with states of its own. */
export const scan8 = defineOp({
  name: "Scan",
  since: 8,
  types: { V: classicTypes },
  inputs: {
    sequence_lens: optional(tensor("int64")),
    initial_state_and_scan_inputs: variadic(tensor("V"), { heterogeneous: true }),
  },
  outputs: { final_state_and_scan_outputs: variadic(tensor("V"), { heterogeneous: true }) },
  attrs: { body: required(graph()), directions: ints(), num_scan_inputs: required(int()) },

  infer(call) {
    const { sequence_lens: lengths, initial_state_and_scan_inputs: operands } = call.inputs;
    const { states, sequences } = parted(call, operands, call.attrs.num_scan_inputs);
    checkDirections(call, "directions", call.attrs.directions, sequences.length);
    checkRank(call, "sequence_lens", lengths, 1);
    let batch: Dim | undefined = lengths?.shape?.[0];
    let length: Dim | undefined;
    const inside = (fact: Fact, depth: 1 | 2): Fact => {
      const { type, shape } = fact;
      if (shape === undefined) return { type, shape };
      call.check(
        shape.length >= depth,
        () => `operands must begin with ${depth === 1 ? "batch" : "batch and sequence"}, got ${factText(fact)}`,
      );
      batch = batch === undefined ? shape[0] : unifyDims(call, batch, shape[0], "operands must have one batch size");
      if (depth === 2)
        length =
          length === undefined ? shape[1] : unifyDims(call, length, shape[1], "scan inputs must have one length");
      return { type, shape: shape.slice(depth) };
    };
    const elements = [...states.map((fact) => inside(fact, 1)), ...sequences.map((fact) => inside(fact, 2))];
    const { kept, yields } = inferElements(call, elements.slice(0, states.length), elements.slice(states.length));
    const empty = batch === 0 || length === 0;
    const outer = batch ?? unknownDim();
    return {
      final_state_and_scan_outputs: [
        ...states.map(({ type }, at) => ({ type, shape: kept[at] && [outer, ...kept[at]] })),
        ...yields.map(({ type, shape }): OutputFact => {
          if (shape === undefined) return { type, shape: empty ? [0] : undefined };
          return { type, shape: [outer, length ?? unknownDim(), ...(empty ? emptied(shape) : shape)] };
        }),
      ],
    };
  },

  reference(call) {
    const { sequence_lens: given, initial_state_and_scan_inputs: operands } = call.inputs;
    const { states, sequences } = parted(call, operands, call.attrs.num_scan_inputs);
    const [batch, longest] = sequences[0].shape;
    const lengths =
      given === undefined ? new Array<number>(batch).fill(longest) : Array.from(readBigInts(given), Number);
    lengths.forEach((length, sample) => {
      call.check(
        length >= 0 && length <= longest,
        () => `sequence_lens[${sample}] must lie in [0, ${longest}], got ${length}`,
        "invalid-argument",
      );
    });
    const results = outputsOf(call, "final_state_and_scan_outputs");
    const yieldCount = Math.max(0, results.given.length - states.length);
    const runs = lengths.map((length, sample) =>
      runBody(
        call,
        states.map((state) => contiguous(elementAt(state, 0, sample))),
        length,
        yieldCount,
        (step) =>
          sequences.map((sequence, at) =>
            elementAt(elementAt(sequence, 0, sample), 0, call.attrs.directions?.[at] === 1 ? length - 1 - step : step),
          ),
      ),
    );
    states.forEach((_, at) => {
      if (at < results.given.length)
        stackInto(
          results,
          at,
          runs.map((run) => run.states[at]),
        );
    });
    for (let at = 0; at < yieldCount; at++) {
      const first = runs.flatMap((run) => run.yields[at])[0];
      const index = states.length + at;
      if (first === undefined) {
        const output = results.given[index] ?? results.allocate([batch, longest], index);
        fillView(output, zeroOf(output.type));
        continue;
      }
      const output = outputOf(results, index, first.type, [batch, longest, ...first.shape]);
      // What a shorter sequence leaves open is undefined in ONNX; here it is zero.
      fillView(output, zeroOf(output.type));
      runs.forEach((run, sample) =>
        run.yields[at].forEach((element, step) => {
          checkSameElement(call, `scan output ${at}`, first, element);
          copyView(element, elementAt(elementAt(output, 0, sample), 0, step));
        }),
      );
    }
  },
});
