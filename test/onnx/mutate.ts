/** Seeded mutations of protobuf files: of the plain bytes, and of the tree of fields with lengths put right again. */
import type { DescMessage } from "@bufbuild/protobuf";
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** Integers below a bound. */
export type Random = (bound: number) => number;

/** Bytes with one to four mutations: flips, cuts, edited numbers, splices and doubled ranges. */
export function mutateBytes(bytes: Uint8Array, others: readonly Uint8Array[], random: Random): Uint8Array {
  let list = bytes;
  for (let left = 1 + random(4); left > 0 && list.length > 0; left--) {
    const at = random(list.length);
    const length = 1 + random(Math.min(64, list.length));
    const other = others[random(others.length)];
    const from = random(other.length);
    switch (random(7)) {
      case 0: // a bit
        list = list.with(at, list[at] ^ (1 << random(8)));
        break;
      case 1: // a byte, often one that matters to varints
        list = list.with(at, [0x00, 0x7f, 0x80, 0xff, random(256)][random(5)]);
        break;
      case 2: // the end cut off
        list = list.slice(0, at);
        break;
      case 3: // a range cut out
        list = splice(list, at, length, new Uint8Array());
        break;
      case 4: // a range from another file put in
        list = splice(list, at, random(2) * length, other.subarray(from, from + length));
        break;
      case 5: // a range doubled
        list = splice(list, at, 0, list.subarray(at, at + length));
        break;
      default: // a number made large
        list = splice(list, at, 1, Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x0f).subarray(random(5)));
    }
  }
  return list;
}

function splice(list: Uint8Array, at: number, remove: number, insert: Uint8Array): Uint8Array {
  const rest = list.subarray(Math.min(at + remove, list.length));
  const result = new Uint8Array(at + insert.length + rest.length);
  result.set(list.subarray(0, at));
  result.set(insert, at);
  result.set(rest, at + insert.length);
  return result;
}

interface Item {
  number: number;
  wire: WireType;
  /** What follows the tag; without the length where there is one. */
  content: Uint8Array;
  /** Instead of the content, where the field is a message. */
  children?: Item[];
}

function parse(bytes: Uint8Array, schema: DescMessage): Item[] {
  const reader = new BinaryReader(bytes);
  const items: Item[] = [];
  while (reader.pos < reader.len) {
    const [number, wire] = reader.tag();
    const content = wire === WireType.LengthDelimited ? reader.bytes() : reader.skip(wire, number);
    const message = schema.fields.find((field) => field.number === number)?.message;
    items.push({
      number,
      wire,
      content,
      children: message && wire === WireType.LengthDelimited ? parse(content, message) : undefined,
    });
  }
  return items;
}

function serialize(items: readonly Item[]): Uint8Array {
  const writer = new BinaryWriter();
  for (const { number, wire, content, children } of items) {
    writer.tag(number, wire);
    if (wire === WireType.LengthDelimited) writer.bytes(children === undefined ? content : serialize(children));
    else writer.raw(content);
  }
  return writer.finish();
}

/** The item with lists of its own. Contents are shared, since none is ever changed: a copy of one copies all of the file it shows a part of. */
const copyOf = (item: Item): Item => ({ ...item, children: item.children?.map(copyOf) });

/** All lists of fields in the tree. */
function listsOf(items: Item[]): Item[][] {
  return [items, ...items.flatMap(({ children }) => (children === undefined ? [] : listsOf(children)))].filter(
    (list) => list.length > 0,
  );
}

/** A valid file with one to four of its fields dropped, doubled, renumbered, exchanged or refilled; lengths stay right. */
export function mutateTree(bytes: Uint8Array, schema: DescMessage, random: Random): Uint8Array {
  const tree = parse(bytes, schema);
  for (let left = 1 + random(4); left > 0; left--) {
    const lists = listsOf(tree);
    if (lists.length === 0) break;
    const list = lists[random(lists.length)];
    const at = random(list.length);
    const item = list[at];
    const donors = lists[random(lists.length)];
    const donor = donors[random(donors.length)];
    switch (random(6)) {
      case 0:
        list.splice(at, 1);
        break;
      case 1:
        list.splice(at, 0, copyOf(item));
        break;
      case 2:
        list[at] = { ...item, number: 1 + random(26) };
        break;
      case 3: // another field's content under this field's number
        list[at] = { ...copyOf(donor), number: item.number };
        break;
      case 4: // a field of another message
        list.splice(at, 0, copyOf(donor));
        break;
      default:
        if (item.children !== undefined) item.children = [];
        else if (item.wire === WireType.Varint)
          item.content = new BinaryWriter()
            .uint64([0n, 1n, 2n ** 31n, 2n ** 64n - 1n, BigInt(random(30))][random(5)])
            .finish();
        else item.content = mutateBytes(item.content, [bytes], random);
    }
  }
  return serialize(tree);
}
