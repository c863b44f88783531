/** The slots of positions: what a scheduler knows, block tables and positions, turned into what the paged write takes. */
import { InsituError } from "#insitu/base/error.js";
import { checkOptionNames } from "#insitu/base/option-names.js";
import { valueText } from "#insitu/base/value-text.js";
import { readNumbers, writeIntegers } from "#insitu/tensor/access.js";
import { isTensor, Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";
import { readArguments } from "./call-operator.js";

/** What `slotMapping` is made from. */
export interface SlotMappingInputs {
  /** [batch, columns]: the blocks of each sequence, in order. int32 or int64. */
  readonly blockTables: Tensor;
  /** [tokens]: each token's position in its sequence, or [batch, length]. Negative positions are skipped: slot −1. */
  readonly positions: Tensor;
  /** [batch]: how many of the tokens belong to each sequence, in order. Without it a sequence has one token, or one row. */
  readonly seqLens?: Tensor | undefined;
}

/** The slots [tokens] of positions: block_tables[b][p div blockSize] * blockSize + p mod blockSize. Typed as the tables. */
export function slotMapping(inputs: SlotMappingInputs, options: { readonly blockSize: number }): Tensor {
  const given = readArguments<{ readonly blockSize: number }>("ops.slotMapping", inputs, options);
  checkOptionNames("ops.slotMapping: its options", given, { blockSize: true });
  const { blockSize } = given;
  const { blockTables, positions, seqLens } = inputs;
  const refuse = (message: string): never => {
    throw new InsituError("invalid-argument", `ops.slotMapping: ${message}`);
  };
  for (const [name, tensor] of Object.entries({ blockTables, positions, seqLens })) {
    if (tensor === undefined && name === "seqLens") continue;
    if (!isTensor(tensor)) return refuse(`${name} must be a Tensor, got ${valueText(tensor)}`);
    if (tensor.type !== "int32" && tensor.type !== "int64") refuse(`${name} must be int32 or int64, got ${tensor}`);
  }
  if (blockSize === undefined || !Number.isSafeInteger(blockSize) || blockSize < 1)
    return refuse(`blockSize must be a whole number of at least 1, got ${valueText(blockSize)}`);
  if (blockTables.dims.length !== 2) refuse(`blockTables must have 2 dimensions, got ${blockTables}`);
  const [batch, columns] = blockTables.dims;
  const lengths = tokensOf({ blockTables, positions, seqLens }, batch, refuse);
  const tables = readNumbers(blockTables.toView());
  const places = readNumbers(positions.toView());
  const slots = new Float64Array(places.length);
  let token = 0;
  lengths.forEach((length, sequence) => {
    for (const end = token + length; token < end; token++) {
      const position = places[token];
      const column = Math.floor(position / blockSize);
      if (position < 0) {
        slots[token] = -1;
        continue;
      }
      if (column >= columns)
        refuse(
          `positions[${token}] must be below the ${columns * blockSize} positions of sequence ${sequence}'s table, got ${position}`,
        );
      const block = tables[sequence * columns + column];
      if (block < 0)
        refuse(`blockTables[${sequence},${column}] must not be negative where a position needs it, got ${block}`);
      const slot = block * blockSize + (position - column * blockSize);
      if (slot >= 2 ** 31 && blockTables.type === "int32")
        refuse(`slot ${slot} does not fit int32; give blockTables as int64`);
      slots[token] = slot;
    }
  });
  const view = View.allocate(blockTables.type, [slots.length]);
  writeIntegers(view, slots);
  return Tensor.fromView(view);
}

/** How many tokens each sequence has. */
function tokensOf(
  { positions, seqLens }: SlotMappingInputs,
  batch: number,
  refuse: (message: string) => never,
): readonly number[] {
  if (seqLens === undefined) {
    const [rows, length = 1, ...more] = positions.dims;
    if (rows !== batch || more.length > 0)
      refuse(
        `positions must be [${batch}] or [${batch}, length], one row a row of blockTables, got ${positions}; give seqLens for packed tokens`,
      );
    return Array.from({ length: batch }, () => length);
  }
  const lengths = Array.from(readNumbers(seqLens.toView()));
  const sum = lengths.reduce((total, length) => total + length, 0);
  if (
    positions.dims.length !== 1 ||
    lengths.length !== batch ||
    lengths.some((length) => length < 0) ||
    sum !== positions.size
  )
    refuse(
      `seqLens needs ${batch} entries that sum to the tokens of positions, got [${lengths.join(",")}] for ${positions}`,
    );
  return lengths;
}
