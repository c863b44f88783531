/** Letters that stand for bytes in vocabularies of bytes: printable ones for themselves, the others from U+0100 on. */
export const bytesOfLetters: ReadonlyMap<string, number> = (() => {
  const isPlain = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let others = 0x100;
  return new Map(
    Array.from({ length: 256 }, (_, byte) => [String.fromCodePoint(isPlain(byte) ? byte : others++), byte]),
  );
})();
