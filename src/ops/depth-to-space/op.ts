/** DepthToSpace and SpaceToDepth: blocks of pixels into channels and back. Move elements without looking at them. */
import { type Attribute, int, oneOf, required } from "../../graph/attribute.js";
import {
  type Dim,
  divideExactly,
  floorDivideDims,
  isKnown,
  multiplyDims,
  type Shape,
  shapeText,
} from "../../graph/dim.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { contiguous, copyView } from "../../tensor/copy.js";
import type { ElementType } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { classicTypes, plainTypes } from "../shared/rules/plain-types.js";
import { checkRank } from "../shared/rules/shapes.js";

/** Whether channels hold the block's pixels outermost (depth, column, row) or innermost. */
type Mode = "DCR" | "CRD";

const mode = (): Attribute<Mode> => oneOf(["DCR", "CRD"], "DCR");

function checkBlock(call: CallContext, blocksize: number): void {
  call.check(
    blocksize >= 1 && Number.isSafeInteger(blocksize * blocksize),
    () => `blocksize must be positive, got ${blocksize}`,
    "invalid-argument",
  );
}

function divide(call: CallContext, dim: Dim, by: number, what: string, shape: Shape): Dim {
  const quotient = divideExactly(dim, by);
  call.check(
    quotient !== undefined || !isKnown(dim),
    () => `${what} of input ${shapeText(shape)} must be a multiple of ${by}, got ${dim}`,
  );
  return quotient ?? floorDivideDims(dim, by);
}

/** [N, C, H, W] → [N, C / b², H · b, W · b] */
function depthToSpace(input: View, output: View, block: number, order: Mode): void {
  const [batch, channels, height, width] = output.shape;
  const [h, w] = [height / block, width / block];
  const source = contiguous(input);
  const blocks =
    order === "DCR"
      ? source.reshape([batch, block, block, channels, h, w]).transpose([0, 3, 4, 1, 5, 2])
      : source.reshape([batch, channels, block, block, h, w]).transpose([0, 1, 4, 2, 5, 3]);
  copyView(blocks, output.reshape([batch, channels, h, block, w, block]));
}

/** [N, C, H, W] → [N, C · b², H / b, W / b] */
function spaceToDepth(input: View, output: View, block: number, order: Mode): void {
  const [batch, channels] = input.shape;
  const [, , h, w] = output.shape;
  const blocks = contiguous(input).reshape([batch, channels, h, block, w, block]);
  if (order === "DCR")
    copyView(blocks.transpose([0, 3, 5, 1, 2, 4]), output.reshape([batch, block, block, channels, h, w]));
  else copyView(blocks.transpose([0, 1, 3, 5, 2, 4]), output.reshape([batch, channels, block, block, h, w]));
}

/** One of the two: the shape that it makes of [N, C, H, W], and what it moves. */
function blockOp(
  name: "DepthToSpace" | "SpaceToDepth",
  since: number,
  types: readonly ElementType[],
  attrs: { readonly mode?: Attribute<Mode> },
) {
  const move = name === "DepthToSpace" ? depthToSpace : spaceToDepth;
  return defineOp({
    name,
    since,
    types: { T: types },
    inputs: { input: tensor("T") },
    outputs: { output: tensor("T") },
    attrs: { blocksize: required(int()), ...attrs },
    infer(call) {
      const { input } = call.inputs;
      const { blocksize } = call.attrs;
      checkBlock(call, blocksize);
      checkRank(call, "input", input, 4);
      if (input.shape === undefined) return {};
      const [batch, channels, height, width] = input.shape;
      const area = blocksize * blocksize;
      const fewer = (dim: Dim, by: number, what: string): Dim => divide(call, dim, by, what, input.shape!);
      const shape =
        name === "DepthToSpace"
          ? [fewer(channels, area, "the channels"), multiplyDims(height, blocksize), multiplyDims(width, blocksize)]
          : [
              multiplyDims(channels, area),
              fewer(height, blocksize, "the height"),
              fewer(width, blocksize, "the width"),
            ];
      return { output: { shape: [batch, ...shape] } };
    },
    reference({ inputs, outputs, attrs: given }) {
      if (inputs.input.size > 0) move(inputs.input, outputs.output, given.blocksize, given.mode ?? "DCR");
    },
  });
}

/** Moves channels into blocks of pixels, the block's place outermost in the channels. */
export const DepthToSpace1 = blockOp("DepthToSpace", 1, classicTypes, {});

/** Moves channels into blocks of pixels, the block's place outermost or innermost in the channels. */
export const DepthToSpace11 = blockOp("DepthToSpace", 11, plainTypes, { mode: mode() });

/** Moves blocks of pixels into channels, the block's place outermost in the channels. */
export const SpaceToDepth1 = blockOp("SpaceToDepth", 1, plainTypes, {});

/** Moves blocks of pixels into channels, the block's place outermost or innermost in the channels. */
export const SpaceToDepth28 = blockOp("SpaceToDepth", 28, plainTypes, { mode: mode() });
