// How `toEqual` compares what holds many numbers. Arrays of the same bits are equal at once: vitest looks at their elements one by one, a
// microsecond and more each. Tensors are equal where type, dims and data are: all their fields are private, so that any two looked alike.
import { expect } from "vitest";
import { isTensor, type Tensor } from "../../src/tensor/tensor.js";

type Tester = Parameters<typeof expect.addEqualityTesters>[0][number];

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** True for arrays of one kind with the same bits; what differs in its bits is left to vitest, which says where. */
const sameBits: Tester = (one: unknown, other: unknown) => {
  if (!ArrayBuffer.isView(one) || !ArrayBuffer.isView(other) || one.constructor !== other.constructor) return undefined;
  return Buffer.compare(bytesOf(one), bytesOf(other)) === 0 ? true : undefined;
};

const told = ({ type, dims, data }: Tensor): object => ({ type, dims, data });

/** Throws for tensors on a device, whose data must be awaited. */
const sameTensors: Tester = function (one: unknown, other: unknown, testers) {
  if (one === other || !isTensor(one) || !isTensor(other)) return undefined;
  return this.equals(told(one), told(other), testers);
};

// A worker runs this for each of its suites, and has one list of testers.
const installed = Symbol.for("insitu equality");
if (!(installed in globalThis)) {
  expect.addEqualityTesters([sameBits, sameTensors]);
  Object.defineProperty(globalThis, installed, { value: true });
}
