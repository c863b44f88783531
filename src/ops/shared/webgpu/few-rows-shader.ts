/**
 * The parts of a shader for 2 to 8 rows: rows brought into workgroup memory, chunks of weights loaded, both multiplied, and sums stored. What invocations are
 * called and do is in `few-rows-division.ts`; `few-rows.ts` puts the parts together.
 */
import type { Operand } from "../../../graph/kernel.js";
import type { ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import { openOf, pack, perWord, range } from "../../../webgpu-kernels/wgsl.js";
import { columns, type FewRowsDivision, partsBytes, planeOf } from "./few-rows-division.js";
import { chunkLoads, type RowQuads, type Weights } from "./product-operands.js";

/** One product of few rows. Its result has n columns, or n / 2 where pairs of them are a gate and what it lets through. */
export interface FewRowsProduct {
  readonly name: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Has `leftQuad`. */
  readonly left: RowQuads;
  readonly weights: Weights;
  /** Has `factorQuad`: what the normalized rows are multiplied by. */
  readonly norm?: { readonly factor: ShaderPart; readonly epsilon: number } | undefined;
  /** Has `finish(batch, row, column, sum) -> f32`, for a column of the product. */
  readonly finish: ShaderPart;
  /** Has `gated(row, column, gate, up) -> f32`, for a column of the result; undefined where there is no gate. */
  readonly gate?: ShaderPart | undefined;
  readonly output: Operand;
}

/** 2^-72: brings squares of what overflows float32 back into its range. */
const small = "2.117582368135751e-22";

/** Loads of an invocation that are under way while rows are brought in. */
const loadsAtOnce = 4;

/** The parts of one. Sums are `s0`, `s1`, …: of each row, a vector of columns. */
export class FewRowsShader {
  readonly #work: FewRowsProduct;
  readonly #division: FewRowsDivision;
  /** Invocations of a subgroup; 1 where there are none. */
  readonly #width: number;
  readonly #rows: readonly number[];
  /** Quads of a chunk, in the order in which they are multiplied: two at a time where a load brings eight values. */
  readonly #groups: readonly (readonly number[])[];

  constructor(work: FewRowsProduct, division: FewRowsDivision, width: number) {
    this.#work = work;
    this.#division = division;
    this.#width = width;
    this.#rows = range(division.rows);
    const quads = work.weights.chunk / 4;
    const size = work.left.eight !== undefined && quads % 2 === 0 ? 2 : 1;
    this.#groups = range(quads / size).map((group) => range(size).map((at) => group * size + at));
  }

  /** True if rows are there for nothing: they are read as the last one, and not stored. */
  get #isPadded(): boolean {
    return this.#work.m < this.#division.rows;
  }

  /** Where a row is read. */
  #source(row: string): string {
    return this.#isPadded ? `min(${row}, ${openOf("m")} - 1u)` : row;
  }

  /** What workgroup memory holds, `inverse(row)`, and `store(row, first, sums)`: four columns of the product from `first` on. */
  functions(): string {
    const { n, k, norm, weights, gate, output } = this.#work;
    const { rows, threads, lanes, held, span } = this.#division;
    const width = this.#width;
    const [each, pairs] = [perWord(output.type), gate === undefined ? 1 : 2];
    const made = n / pairs;
    const parts = partsBytes(rows, threads, lanes, width) / 16;
    const count = span / width;
    const value = (at: number): string => {
      const column = at === 0 ? "n" : `min(n + ${at}u, ${made - 1}u)`;
      const product = (of: string, sum: string): string => `finish(0u, row, ${of}, ${sum})`;
      return gate === undefined
        ? product(column, `sums[at + ${at}u]`)
        : `gated(row, ${column}, ${product(`2u * ${column}`, `sums[2u * at + ${2 * at}u]`)}, ${product(`2u * ${column} + 1u`, `sums[2u * at + ${2 * at + 1}u]`)})`;
    };
    const words = range(columns / pairs / each).map(
      (word) => `{ const at = ${word * each}u; let n = first / ${pairs}u + at;
    if (n < ${made}u) { result[(p.resultOffset + row * ${made}u + n) / ${each}u] = ${pack(output.type, range(each).map(value))}; } }`,
    );
    return `
${held === 0 ? "" : `var<workgroup> held: array<vec4f, ${(held * weights.chunk * planeOf(weights.chunks)) / 4}>;`}
${parts === 0 ? "" : `var<workgroup> parts: array<vec4f, ${parts}>;`}
${
  norm === undefined
    ? ""
    : `var<workgroup> squares: array<vec2f, ${rows * count}>;
fn inverse(row: u32) -> f32 {
  var sum = vec2f();
  for (var at = 0u; at < ${count}u; at++) { sum += squares[row * ${count}u + at]; }
  if (sum.x > 3.0e38) { return ${small} * inverseSqrt(sum.y / ${k}.0); }
  return inverseSqrt(sum.x / ${k}.0 + p.epsilon);
}`
}
fn times(sums: vec4f, a: vec4f, b: mat4x4f) -> vec4f {
  return fma(vec4f(a.w), b[3], fma(vec4f(a.z), b[2], fma(vec4f(a.y), b[1], fma(vec4f(a.x), b[0], sums))));
}
fn store(row: u32, first: u32, given: vec4f) {
  ${this.#isPadded ? `if (row >= ${openOf("m")}) { return; }` : ""}
  let sums = ${norm === undefined ? "given" : "inverse(row) * given"};
  ${words.join("\n  ")}
}`;
  }

  /** The columns of an invocation's team, from `base` on; past the end the last one. */
  ownColumns(base: string): string {
    const { n } = this.#work;
    const begin = `let begin = ${base} + local / ${this.#division.lanes}u * ${columns}u;`;
    return `${begin} ${range(columns)
      .map((column) => `let n${column} = min(begin + ${column}u, ${n - 1}u);`)
      .join(" ")}`;
  }

  /** Loads chunks from `start` on. */
  load(start: string): string {
    return chunkLoads(start, columns, this.#work.weights, this.#division).join("\n  ");
  }

  /** Brings rows into workgroup memory, quads of a chunk apart, so that lanes with neighbouring chunks read neighbours; and sums up their squares. */
  bringIn(): string {
    const { norm, weights } = this.#work;
    const { rows, threads, held, span } = this.#division;
    const { chunk, chunks } = weights;
    if (held === 0 && norm === undefined) return "";
    const quads = chunk / 4;
    const size = this.#groups[0].length;
    const items = (quads * chunks) / size;
    const loads = range(Math.min(loadsAtOnce, Math.ceil(items / span)));
    const atOnce = threads / span;
    const put = (load: number, part: number): string => {
      const [value, quad] = [`v${load}_${part}`, `${size}u * item${load} + ${part}u`];
      const squared = `let r${load}_${part} = ${small} * ${value}; square += vec2f(dot(${value}, ${value}), dot(r${load}_${part}, r${load}_${part}));`;
      const factor = norm === undefined ? "" : ` * f${load}_${part}`;
      const keep = `held[(row * ${quads}u + (${quad}) % ${quads}u) * ${planeOf(chunks)}u + (${quad}) / ${quads}u] = ${value}${factor};`;
      return `${norm === undefined ? "" : squared} ${held === 0 ? "" : `if (${held < rows ? `row < ${held}u && ` : ""}item${load} < ${items}u) { ${keep} }`}`;
    };
    const rounds = range(Math.ceil((norm === undefined ? held : rows) / atOnce)).map(
      (round) => `{
    let row = ${round * atOnce}u + local / ${span}u;
    let source = ${this.#source("row")};
    var square = vec2f();
    for (var item = local % ${span}u; item < ${items}u; item += ${span * loads.length}u) {
      ${loads.map((load) => `let item${load} = item + ${load * span}u;`).join(" ")}
      ${loads.map((load) => this.#leftQuads(`v${load}`, "source", `${4 * size}u * item${load}`, size)).join("\n      ")}
      ${norm === undefined || held === 0 ? "" : loads.flatMap((load) => range(size).map((part) => `let f${load}_${part} = factorQuad(0u, 0u, 4u * (${size}u * item${load} + ${part}u));`)).join(" ")}
      ${loads
        .map((load) =>
          range(size)
            .map((part) => put(load, part))
            .join("\n      "),
        )
        .join("\n      ")}
    }
    ${norm === undefined ? "" : this.#keepSquares()}
  }`,
    );
    return `${rounds.join("\n  ")}\n  workgroupBarrier();`;
  }

  #keepSquares(): string {
    const { span } = this.#division;
    const [width, count] = [this.#width, span / this.#width];
    return width === 1
      ? `squares[row * ${count}u + local % ${span}u] = square;`
      : `square = subgroupAdd(square);
    if (own == 0u) { squares[row * ${count}u + local % ${span}u / ${width}u] = square; }`;
  }

  /** Declares one or two quads of a row from k on: `${name}_0`, `${name}_1`. */
  #leftQuads(name: string, row: string, k: string, size: number): string {
    if (size === 1) return `let ${name}_0 = leftQuad(0u, ${row}, ${k});`;
    const [first, second] = this.#work.left.eight!(`${name}Eight`);
    return `let ${name}Eight = leftEight(${row}, ${k}); let ${name}_0 = ${first}; let ${name}_1 = ${second};`;
  }

  /** Multiplies what was loaded. */
  multiply(): string {
    const { weights, norm } = this.#work;
    const { ahead, lanes, held } = this.#division;
    const { chunk, chunks } = weights;
    const isWhole = chunks % (lanes * ahead) === 0;
    const stepCode = (step: number): string => {
      const loaded = range(columns).map((column) => `w${step}_${column}`);
      const ofColumns = loaded.map((from) => weights.quads(from));
      const scales = loaded.map((from) => weights.scale(from));
      const sum = scales[0] === undefined ? "s" : "t";
      const groups = this.#groups.map((quads) => {
        const k = `at${step} * ${chunk}u + ${4 * quads[0]}u`;
        const factors =
          norm === undefined || held === this.#rows.length
            ? []
            : quads.map((_, part) => `let f_${part} = factorQuad(0u, 0u, ${k} + ${4 * part}u);`);
        const values = this.#rows.map((row) =>
          row < held
            ? quads
                .map(
                  (quad, part) =>
                    `let a${row}_${part} = held[${(row * (chunk / 4) + quad) * planeOf(chunks)}u + at${step}];`,
                )
                .join(" ")
            : this.#leftQuads(`a${row}`, this.#source(`${row}u`), k, quads.length),
        );
        const products = quads.flatMap((quad, part) => [
          `let b_${part} = transpose(mat4x4f(${ofColumns.map((ofColumn) => ofColumn[quad]).join(", ")}));`,
          ...this.#rows.map((row) => {
            const value = `a${row}_${part}${row < held || norm === undefined ? "" : ` * f_${part}`}`;
            return `${sum}${row} = times(${sum}${row}, ${value}, b_${part});`;
          }),
        ]);
        return `{ ${[...factors, ...values, ...products].join("\n      ")} }`;
      });
      const scaled =
        scales[0] === undefined
          ? []
          : [
              `let scales${step} = vec4f(${scales.join(", ")});`,
              ...this.#rows.map((row) => `s${row} = fma(scales${step}, t${row}, s${row});`),
            ];
      const sums = scales[0] === undefined ? [] : this.#rows.map((row) => `var t${row} = vec4f();`);
      return `${isWhole ? "" : `if (at${step} < ${chunks}u) `}{
    ${[sums.join(" "), ...groups, ...scaled].join("\n    ")}
  }`;
    };
    return range(ahead).map(stepCode).join("\n  ");
  }
}
