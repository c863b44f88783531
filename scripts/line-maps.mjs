// Source maps that tell lines alone, which is what a stack trace needs: a third of the size of those with every column and name.

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const valueOf = new Map(Array.from(digits, (digit, value) => [digit, value]));

/** The numbers of one segment: base 64, five bits a digit, the lowest first, the sign in the lowest bit. */
function numbersOf(segment) {
  const numbers = [];
  let [number, shift] = [0, 0];
  for (const digit of segment) {
    const bits = valueOf.get(digit);
    number |= (bits & 31) << shift;
    shift += 5;
    if (bits & 32) continue;
    numbers.push(number & 1 ? -(number >> 1) : number >> 1);
    [number, shift] = [0, 0];
  }
  return numbers;
}

function textOf(number) {
  let rest = number < 0 ? (-number << 1) | 1 : number << 1;
  let text = "";
  do {
    const bits = rest & 31;
    rest >>= 5;
    text += digits[rest > 0 ? bits | 32 : bits];
  } while (rest > 0);
  return text;
}

/** The map with the segments alone that begin another line of a source. */
export function linesOnly(text) {
  const { mappings, ...map } = JSON.parse(text);
  let [source, line] = [0, 0];
  let [keptSource, keptLine] = [0, 0];
  const lines = mappings.split(";").map((segments) => {
    let [column, keptColumn] = [0, 0];
    let before;
    const kept = [];
    for (const segment of segments === "" ? [] : segments.split(",")) {
      const [byColumn, bySource, byLine] = numbersOf(segment);
      column += byColumn;
      if (bySource === undefined) continue;
      [source, line] = [source + bySource, line + byLine];
      if (before === `${source} ${line}`) continue;
      before = `${source} ${line}`;
      kept.push([column - keptColumn, source - keptSource, line - keptLine, 0].map(textOf).join(""));
      [keptColumn, keptSource, keptLine] = [column, source, line];
    }
    return kept.join(",");
  });
  return JSON.stringify({ ...map, names: [], mappings: lines.join(";") });
}
