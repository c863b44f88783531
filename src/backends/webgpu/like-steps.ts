/**
 * What a kernel recorded for one step, for steps that are like it: the layers of a decoder, and programs for other shapes, ask for the same dispatches of
 * other operands. Steps are alike where all is equal that a kernel can see: declaration and attributes, how operands and outputs lie, which of them lie
 * in one buffer, and the bytes that the kernel looked at. Chooses no kernel, and records none.
 */
import type { Node } from "../../graph/graph.js";
import type { Operand } from "../../graph/kernel.js";
import type { Op } from "../../graph/op.js";
import { Placed } from "../../tensor/placed.js";
import { bytesIn, coversStorage } from "../../tensor/view.js";
import type { Binding, DeviceTraits, Dispatch, OperandForm } from "../../webgpu-kernels/webgpu-kernel.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { Operands } from "../kernel-call.js";
import type { DeviceBuffer } from "./buffers.js";
import { CallRecorder, isTemporary, RecordedForm } from "./recorder.js";

/** A step that was recorded. */
interface Recorded {
  /** Inputs, then outputs. */
  readonly operands: Operands;
  /** The inputs whose bytes were looked at. */
  readonly looked: ReadonlySet<number>;
  readonly recorder: CallRecorder;
}

/** The steps of one session that others may be like. */
export class LikeSteps {
  readonly #steps = new Map<string, Recorded[]>();
  readonly #attributes = new WeakMap<Node, { readonly text: string | undefined }>();
  readonly #ops = new Map<Op, number>();
  readonly #originals = new WeakMap<Dispatch, Dispatch>();
  #count = 0;

  /** Tells steps that may be alike by one text; undefined for a step that is like no other. `onHost`: inputs that the host knows of before each run. */
  nameOf(node: Node, operands: Operands, onHost: readonly boolean[]): string | undefined {
    const attributes = this.#attributesOf(node);
    if (attributes === undefined) return undefined;
    const buffers = new Map<object, number>();
    const all = operands.map((operand, at) => {
      if (operand === undefined) return "";
      const { place, type, shape, strides, constant, known } = operand;
      const { inPieces } = place.buffer as Partial<Pick<DeviceBuffer, "inPieces">>;
      if (!buffers.has(place.buffer)) buffers.set(place.buffer, buffers.size);
      const how = `${constant ? "c" : ""}${known ? "k" : ""}${onHost[at] ? "h" : ""}`;
      const pieces = inPieces === undefined ? "" : `${inPieces.count}x${inPieces.bytes}`;
      return `${type}[${shape}]${strides}+${place.offset}@${buffers.get(place.buffer)}${how}${pieces}`;
    });
    return `${attributes} ${all.join(" ")}`;
  }

  /** What was recorded for a step of this name, with these operands in place of that one's; undefined where none is like it. */
  find(name: string, operands: Operands, device: DeviceTraits, here: ReadonlySet<Placed>): CallRecorder | undefined {
    const like = this.#steps.get(name)?.find((other) => lookAlike(other, operands));
    return like && this.#withOperands(like, operands, new CallRecorder(device, here));
  }

  /** Others may be like this step. */
  add(name: string, recorded: Recorded): void {
    if (this.#count++ >= keeping.mostLikeSteps) {
      this.#steps.clear();
      this.#count = 1;
    }
    this.#steps.set(name, [...(this.#steps.get(name) ?? []), recorded]);
  }

  /** The dispatch that a dispatch has code, numbers and bindings from. */
  originalOf(dispatch: Dispatch): Dispatch {
    return this.#originals.get(dispatch) ?? dispatch;
  }

  /** The declaration and attributes of a node as text; undefined where there are such that no text tells. */
  #attributesOf(node: Node): string | undefined {
    let known = this.#attributes.get(node);
    if (known === undefined) {
      const { op, opset, attrs } = node;
      if (!this.#ops.has(op)) this.#ops.set(op, this.#ops.size);
      const attributes = plainText(attrs);
      known = { text: attributes && `${this.#ops.get(op)} ${opset} ${attributes}` };
      this.#attributes.set(node, known);
    }
    return known.text;
  }

  #withOperands({ operands, recorder }: Recorded, own: Operands, result: CallRecorder): CallRecorder | undefined {
    const others = new Map<object, Binding["of"]>();
    operands.forEach((operand, at) => operand && others.set(operand, own[at]!));
    /** What stands there in place of it; undefined where that is not known. */
    const inPlaceOf = (of: Binding["of"]): Binding["of"] | undefined => {
      const known = others.get(of) ?? (isTemporary(of) ? of : undefined);
      if (known !== undefined || !("place" in of)) return known;
      if (isTemporary(of.place.buffer)) return of;
      // What a kernel made of an operand lies where the operand does.
      const at = operands.findIndex((operand) => operand?.place.buffer === of.place.buffer);
      if (at < 0) return undefined;
      const { type, shape, offset, strides } = of.place;
      return { ...of, place: new Placed(type, shape, own[at]!.place.buffer, offset, strides) };
    };
    let isWhole = true;
    const found = <Of extends Binding["of"]>(of: Of): Of => {
      const other = inPlaceOf(of);
      isWhole &&= other !== undefined;
      return (other ?? of) as Of;
    };
    const dispatchLike = (dispatch: Dispatch): Dispatch => {
      const bindings = dispatch.bindings.map((binding) => ({ ...binding, of: found(binding.of) }));
      const only = dispatch.only?.map((range) => ({ ...range, of: range.of.map(found) }));
      const like = { ...dispatch, bindings, ...(only && { only }) };
      this.#originals.set(like, this.originalOf(dispatch));
      return like;
    };
    for (const form of recorder.forms)
      result.forms.push(
        new RecordedForm(
          form.of.map(found),
          form.key,
          form.bytes,
          (made: OperandForm) => {
            others.set(form, made);
            return dispatchLike(form.dispatch);
          },
          form.laidAt,
          result.device.mostBindingBytes,
        ),
      );
    result.temporaries.push(...recorder.temporaries);
    result.dispatches.push(...recorder.dispatches.map(dispatchLike));
    return isWhole ? result : undefined;
  }
}

/** True if the bytes that were looked at are the same. */
const lookAlike = ({ operands, looked }: Recorded, own: Operands): boolean =>
  [...looked].every((at) => haveSameBytes(operands[at]!, own[at]!));

function haveSameBytes({ view: a }: Operand, { view: b }: Operand): boolean {
  if (a === b) return true;
  if (a.byteLength > keeping.mostComparedBytes || !coversStorage(a) || !coversStorage(b)) return false;
  const [bytes, others] = [bytesIn(a), bytesIn(b)];
  return bytes.every((byte, at) => byte === others[at]);
}

/** Numbers, texts, flags and lists of them as text; undefined for anything else. */
function plainText(value: unknown): string | undefined {
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (value === undefined || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Array.prototype && prototype !== Object.prototype && prototype !== null) return undefined;
  const members = Object.entries(value).map(([name, member]) => {
    const text = plainText(member);
    return text && `${name}: ${text}`;
  });
  return members.includes(undefined) ? undefined : `{${members.join(", ")}}`;
}
