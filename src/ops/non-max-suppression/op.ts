/** NonMaxSuppression: of boxes that lie over each other those with the best score, for each class of each sample. */
import { int } from "../../graph/attribute.js";
import { isKnown, unknownDim } from "../../graph/dim.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { type Numbers, readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import { checkOneElement } from "../shared/rules/operands.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { inOrder } from "../shared/rules/work.js";

/** Boxes as their lower and upper ends along both axes. */
interface Box {
  readonly low: readonly [number, number];
  readonly high: readonly [number, number];
}

export const NonMaxSuppression = defineOp({
  name: "NonMaxSuppression",
  since: 10,
  inputs: {
    boxes: tensor("float32"),
    scores: tensor("float32"),
    max_output_boxes_per_class: optional(tensor("int64")),
    iou_threshold: optional(tensor("float32")),
    score_threshold: optional(tensor("float32")),
  },
  outputs: { selected_indices: tensor("int64") },
  attrs: { center_point_box: int(0) },

  infer(call) {
    const { boxes, scores, max_output_boxes_per_class: most, iou_threshold, score_threshold } = call.inputs;
    const { center_point_box: centered } = call.attrs;
    call.check(
      centered === 0 || centered === 1,
      () => `center_point_box must be 0 or 1, got ${centered}`,
      "invalid-argument",
    );
    checkRank(call, "boxes", boxes, 3);
    checkRank(call, "scores", scores, 3);
    for (const [name, fact] of Object.entries({ max_output_boxes_per_class: most, iou_threshold, score_threshold }))
      checkOneElement(call, name, fact);
    if (boxes.shape !== undefined) {
      const numbers = boxes.shape[2];
      call.check(!isKnown(numbers) || numbers === 4, () => `boxes must have 4 numbers each, got ${String(numbers)}`);
      if (scores.shape !== undefined) {
        unifyDims(call, boxes.shape[0], scores.shape[0], "boxes and scores must agree in the batch");
        unifyDims(call, boxes.shape[1], scores.shape[2], "scores must have one for each box");
      }
    }
    return { selected_indices: { shape: [unknownDim(), 3] } };
  },

  work: ({ inputs: { boxes, scores } }) => inOrder(scores) * Math.max(1, inOrder(boxes)),

  reference(call) {
    const { boxes, scores, max_output_boxes_per_class: given, iou_threshold, score_threshold } = call.inputs;
    const most = given === undefined ? 0 : readIntegers(given)[0];
    const overlap = iou_threshold === undefined ? 0 : readNumbers(iou_threshold)[0];
    const least = score_threshold === undefined ? -Infinity : readNumbers(score_threshold)[0];
    const [values, marks] = [readNumbers(boxes), readNumbers(scores)];
    const [batch, classes, count] = scores.shape;
    const selected: number[] = [];
    for (let sample = 0; sample < batch; sample++) {
      const own = Array.from({ length: count }, (_, box) =>
        boxAt(values, (sample * count + box) * 4, call.attrs.center_point_box === 1),
      );
      for (let one = 0; one < classes; one++) {
        const first = (sample * classes + one) * count;
        const order = own
          .map((_, box) => box)
          .filter((box) => score_threshold === undefined || marks[first + box] > least)
          .toSorted((a, b) => marks[first + b] - marks[first + a]);
        const kept: number[] = [];
        for (const box of order) {
          if (kept.length >= most) break;
          if (kept.every((other) => shareOf(own[box], own[other]) <= overlap)) kept.push(box);
        }
        for (const box of kept) selected.push(sample, one, box);
      }
    }
    writeNumbers(call.allocate("selected_indices", [selected.length / 3, 3]), selected);
  },
});

function boxAt(values: Numbers, at: number, centered: boolean): Box {
  const [a, b, c, d] = values.subarray(at, at + 4);
  if (centered) return { low: [a - c / 2, b - d / 2], high: [a + c / 2, b + d / 2] };
  return { low: [Math.min(a, c), Math.min(b, d)], high: [Math.max(a, c), Math.max(b, d)] };
}

const areaOf = ({ low, high }: Box): number => (high[0] - low[0]) * (high[1] - low[1]);

/** What two boxes share, as a part of what both cover. */
function shareOf(a: Box, b: Box): number {
  const along = (axis: 0 | 1): number => Math.min(a.high[axis], b.high[axis]) - Math.max(a.low[axis], b.low[axis]);
  const [height, width] = [along(0), along(1)];
  if (height <= 0 || width <= 0 || areaOf(a) <= 0 || areaOf(b) <= 0) return 0;
  return (height * width) / (areaOf(a) + areaOf(b) - height * width);
}
