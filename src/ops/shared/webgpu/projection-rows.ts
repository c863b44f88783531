/**
 * Products of one row with weights whose rows run along k (GEMV), and with what stands around them: norm, bias, gate and residual. It is what a decoder does
 * for each token of one text, in one dispatch. Several rows are in `few-rows.ts`.
 *
 *     a workgroup with a norm                       a team of a workgroup
 *     ┌─────────────────────────────────┐           lane 0     lane 1     …  lane 31
 *     │ the row × factors, held         │           chunk 0    chunk 1    …  chunk 31      of each of its columns,
 *     │  ▲         ▲              ▲     │           chunk 32   chunk 33   …  chunk 63      times the same chunk of the row
 *     │ team 0   team 1    …    team 3  │             ╰─ a sum of each column a lane; added up, its first lanes write them
 *     │ 0, 1     2, 3      …    6, 7    │
 *     └─────────────────────────────────┘
 *
 * Without a norm a team has the workgroup for itself, and its lanes read what they need of the row: nothing would be shared. The norm is one number, which
 * the sums are multiplied by at the end.
 *
 * A workgroup goes through phases, each a method of `RowShader`: it *loads* the first weights and the residual, before it waits for anything; *stages* the
 * row in its memory; *multiplies*, with more loads where there are more chunks; *adds up* over the lanes; and *stores*. Where there are more columns than
 * keep a device busy, it takes several turns with one staged row.
 */
import type { Operand } from "../../../graph/kernel.js";
import { dispatchOf, type ShaderPart, textOf, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch } from "../../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, powerOfTwo, range, unrolled, workgroupsFor } from "../../../webgpu-kernels/wgsl.js";
import { aloneTeam } from "./few-rows-division.js";
import { functionsPart } from "./functions.js";
import { chunkLoads, dotOf, type Weights } from "./product-operands.js";

/** One product of one row. Its result has n columns, or n / 2 where pairs of them are a gate and what it lets through. */
interface RowProjection {
  readonly name: string;
  readonly n: number;
  readonly k: number;
  /** Has `leftQuad`. */
  readonly left: ShaderPart;
  readonly weights: Weights;
  /** Has `factorQuad`: what the normalized rows are multiplied by. */
  readonly norm?: { readonly factor: ShaderPart; readonly epsilon: number } | undefined;
  readonly bias: Operand | undefined;
  readonly gated?: boolean;
  readonly addend: Operand | undefined;
  readonly output: Operand;
}

/** How the work is divided. */
interface Division {
  readonly threads: number;
  /** Invocations that share columns. */
  readonly lanes: number;
  /** Columns that they have at a time. */
  readonly columns: number;
  /** Chunks of each column that an invocation loads before it multiplies. */
  readonly ahead: number;
  /** How often a workgroup does all this. */
  readonly turns: number;
}

function divide(work: RowProjection, { subgroup = 1, tuning: { oneRow } }: DeviceTraits): Division {
  const { n, weights, norm, gated = false, output } = work;
  const { chunk, chunks } = weights;
  const { enoughWorkgroups, mostLoads, mostTerms, mostTurns, mostAlone } = oneRow;
  // With a norm, all of a workgroup share the row that it keeps. Without, one team has the workgroup for itself and reads what it needs.
  const least = Math.max(32, subgroup);
  const together = Math.min(least, Math.max(2, subgroup, powerOfTwo(chunks)));
  const [threads, lanes] =
    norm === undefined ? aloneTeam(chunks, least, subgroup, mostAlone) : [Math.max(128, together), together];
  // A team writes whole words of the result.
  const columns = Math.max(2, perWord(output.type) * (gated ? 2 : 1), n > 32 * enoughWorkgroups ? 4 : 2);
  const most = Math.min(mostLoads / columns, mostTerms / (columns * (chunk / 4)));
  const ahead = Math.min(Math.ceil(chunks / lanes), Math.max(1, Math.floor(most)));
  const workgroups = n / ((threads / lanes) * columns);
  const turns = workgroups < 2 * enoughWorkgroups ? 1 : Math.min(mostTurns, Math.floor(workgroups / enoughWorkgroups));
  return { threads, lanes, columns, ahead, turns };
}

/** The row is kept where its norm is taken, or where several teams read it. */
const isStaged = ({ norm }: RowProjection, { threads, lanes }: Division): boolean =>
  norm !== undefined || threads > lanes;

/** The dispatch of such a product; undefined where a workgroup cannot hold the row, sums and squares. Elements of the output must not share words over rows. */
export function rowProjection(work: RowProjection, device: DeviceTraits): Dispatch | undefined {
  const { name, n, k, left, weights, norm, bias, addend, output } = work;
  const division = divide(work, device);
  const { threads, lanes, columns, turns } = division;
  const width = device.subgroup ?? 1;
  const parts = threads / width;
  const row = isStaged(work, division) ? 4 * weights.chunk * weights.chunks : 0;
  if (row + 4 * parts * columns + (norm === undefined ? 0 : 8 * parts) > device.workgroupBytes) return undefined;
  const shader = new RowShader(work, division, width);
  // What reads weights is written by how their chunks lie, which their functions tell.
  const around = [norm !== undefined, work.gated, addend !== undefined, output.type];
  const settings = [n, k, division, width, weights.code, weights.chunk, weights.chunks, ...around];
  return dispatchOf({
    name,
    parts: [packing, left, weights, norm?.factor, shader.finishing(), variable("result", output, { writes: true })],
    extensions: width > 1 ? ["subgroups"] : [],
    code: textOf(
      "rowProjection",
      settings,
      () => `${shader.memory()}
@compute @workgroup_size(${threads}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let lane = local % ${lanes}u;
  let first = (group.y * groups.x + group.x) * ${(threads / lanes) * columns * turns}u;
  ${shader.loadFirst()}
  ${shader.stage()}
  ${turns === 1 ? "{ let base = first;" : `for (var turn = 0u; turn < ${turns}u; turn++) { let base = first + turn * ${(threads / lanes) * columns}u;`}
  ${shader.multiply()}
  ${shader.addUp()}
  ${shader.store()}
  }
}`,
    ),
    parameters: {
      k,
      resultOffset: output.place.offset,
      ...(norm === undefined ? {} : { epsilon: { float: norm.epsilon } }),
      ...(bias === undefined ? {} : { biasOffset: bias.place.offset }),
      ...(addend === undefined ? {} : { addendOffset: addend.place.offset }),
    },
    fixed: true,
    workgroups: workgroupsFor(Math.ceil(n / (columns * turns)), threads / lanes, device.mostWorkgroups),
  });
}

/** 2^-72: brings squares of what overflows float32 back into its range. */
const small = "2.117582368135751e-22";

/** The phases of one. Sums are `s0_0`, `s0_1`, …, one a column; chunks of weights `w0_0`: the first of column 0. */
class RowShader {
  readonly #work: RowProjection;
  readonly #division: Division;
  /** Invocations of a subgroup; 1 where there are none. */
  readonly #width: number;
  readonly #teams: number;
  /** Elements of a word, columns of the product that make one of the result, words that a team makes in a turn, columns of the result. */
  readonly #per: number;
  readonly #pairs: number;
  readonly #words: number;
  readonly #made: number;
  /** True if a team that is a subgroup has its sums at hand: its first lanes write them. */
  readonly #isDirect: boolean;
  /** True if one load brings all chunks. */
  readonly #isOnce: boolean;
  /** True if an invocation writes one word at most, and knows from the beginning which. */
  readonly #isEarly: boolean;

  constructor(work: RowProjection, division: Division, width: number) {
    this.#work = work;
    this.#division = division;
    this.#width = width;
    const { threads, lanes, columns, ahead, turns } = division;
    this.#teams = threads / lanes;
    this.#per = perWord(work.output.type);
    this.#pairs = work.gated === true ? 2 : 1;
    this.#words = Math.max(1, columns / this.#pairs / this.#per);
    this.#made = work.n / this.#pairs;
    this.#isDirect = lanes === width && this.#words <= width;
    this.#isOnce = Math.ceil(work.weights.chunks / lanes) <= ahead;
    this.#isEarly = turns === 1 && (this.#isDirect || this.#teams * this.#words <= threads);
  }

  /** What is done with sums: `productOf(sum, n)`, `gatedOf(first, second, n)`, `addendOf(n)`. */
  finishing(): ShaderPart {
    const { norm, bias, gated = false, addend } = this.#work;
    const biases = bias && variable("bias", bias);
    const addends = addend && variable("addend", addend);
    return {
      uses: [biases, addends, ...(gated ? [functionsPart("sigmoid")] : [])],
      code: `
fn productOf(sum: f32, n: u32) -> f32 {
  return ${norm === undefined ? "sum" : "inverse() * sum"}${biases === undefined ? "" : ` + ${biases.load("p.biasOffset + n")}`};
}
${
  gated
    ? `fn gatedOf(first: f32, second: f32, n: u32) -> f32 {
  let gate = productOf(first, 2u * n);
  return gate * sigmoid(gate) * productOf(second, 2u * n + 1u);
}`
    : ""
}
${addends === undefined ? "" : `fn addendOf(n: u32) -> f32 { return ${addends.load("p.addendOffset + n")}; }`}`,
    };
  }

  /** Workgroup memory: the row; squares, with `inverse()`; and sums, with `sumOf(team, column)`. */
  memory(): string {
    const { weights, norm, k } = this.#work;
    const { threads, lanes, columns } = this.#division;
    const count = threads / this.#width;
    const each = lanes / this.#width;
    const held = `var<workgroup> held: array<vec4f, ${(weights.chunk / 4) * weights.chunks}>;`;
    // One by the root of the row's mean square. Squares are summed as they are and of values made smaller, for rows that overflow.
    const squares = `
var<workgroup> squares: array<vec2f, ${count}>;
fn inverse() -> f32 {
  var sum = vec2f();
  for (var at = 0u; at < ${count}u; at++) { sum += squares[at]; }
  if (sum.x > 3.0e38) { return ${small} * inverseSqrt(sum.y / ${k}.0); }
  return inverseSqrt(sum.x / ${k}.0 + p.epsilon);
}`;
    const sums = `
var<workgroup> parts: array<f32, ${count * columns}>;
fn sumOf(team: u32, column: u32) -> f32 {
  ${
    this.#width > 1
      ? `var sum = 0.0;
  for (var part = 0u; part < ${each}u; part++) { sum += parts[(team * ${each}u + part) * ${columns}u + column]; }
  return sum;`
      : `return parts[team * ${lanes}u * ${columns}u + column];`
  }
}`;
    return `${isStaged(this.#work, this.#division) ? held : ""}
${norm === undefined ? "" : squares}
${this.#isDirect ? "" : sums}`;
  }

  /** Before anything waits: the weights where one load brings all, and the addend where it is known which. */
  loadFirst(): string {
    const { turns } = this.#division;
    return `${turns === 1 && this.#isOnce ? `${this.#ownColumns("first")}\n    ${this.#load("0u")}` : ""}
  ${this.#isEarly ? this.#place("first", "local") : ""}
  ${
    this.#isEarly && this.#work.addend !== undefined
      ? `${unrolled(this.#per, (at) => `var added${at} = 0.0;`, " ")} if (${this.#writes}) { ${this.#added("")} }`
      : ""
  }`;
  }

  /** Brings the row into workgroup memory: quads of a chunk apart, so that lanes with neighbouring chunks read neighbours. */
  stage(): string {
    if (!isStaged(this.#work, this.#division)) return "";
    const { norm, weights } = this.#work;
    const { threads } = this.#division;
    const [quads, width] = [weights.chunk / 4, this.#width];
    const normed = norm !== undefined;
    const keepSquares =
      width > 1
        ? `square = subgroupAdd(square);
    if (local % ${width}u == 0u) { squares[local / ${width}u] = square; }`
        : `squares[local] = square;`;
    return `{
    ${normed ? "var square = vec2f();" : ""}
    for (var quad = local; quad < ${quads * weights.chunks}u; quad += ${threads}u) {
      let values = leftQuad(0u, 0u, 4u * quad);
      ${normed ? `let reduced = ${small} * values; square += vec2f(dot(values, values), dot(reduced, reduced));` : ""}
      held[quad % ${quads}u * ${weights.chunks}u + quad / ${quads}u] = values${normed ? " * factorQuad(0u, 0u, 4u * quad)" : ""};
    }
    ${normed ? keepSquares : ""}
  }
  workgroupBarrier();`;
  }

  /** Multiplies the columns of a turn, and loads what is not there yet. */
  multiply(): string {
    const { chunks } = this.#work.weights;
    const { lanes, columns, ahead, turns } = this.#division;
    const products = unrolled(ahead, (step) => this.#product(step), "\n    ");
    return `${turns === 1 && this.#isOnce ? "" : this.#ownColumns("base")}
  ${unrolled(columns, (column) => `var s0_${column} = 0.0;`, " ")}
  ${
    this.#isOnce
      ? `${turns === 1 ? "" : this.#load("0u")}
    ${products}`
      : `for (var start = 0u; start < ${chunks}u; start += ${lanes * ahead}u) {
    ${this.#load("start")}
    ${products}
  }`
  }`;
  }

  /** Adds sums up: in a subgroup, then, where it is not the team, in workgroup memory. */
  addUp(): string {
    const { lanes, columns, turns } = this.#division;
    const width = this.#width;
    const put = (place: string): string =>
      unrolled(columns, (at) => `parts[${place} * ${columns}u + ${at}u] = s0_${at};`, " ");
    const together =
      width > 1
        ? `if (local % ${width}u == 0u) { ${put(`(local / ${width}u)`)} }
  workgroupBarrier();`
        : `${put("local")}
  workgroupBarrier();
  for (var half = ${lanes / 2}u; half > 0u; half >>= 1u) {
    if (lane < half) { for (var at = 0u; at < ${columns}u; at++) { parts[local * ${columns}u + at] += parts[(local + half) * ${columns}u + at]; } }
    workgroupBarrier();
  }`;
    return `${turns === 1 || this.#isDirect ? "" : "workgroupBarrier();"}
  ${width > 1 ? unrolled(columns, (at) => `s0_${at} = subgroupAdd(s0_${at});`, " ") : ""}
  ${this.#isDirect ? "" : together}`;
  }

  /** Writes the words of a turn. */
  store(): string {
    const { addend, gated = false, output } = this.#work;
    const [per, pairs] = [this.#per, this.#pairs];
    const value = (at: number): string =>
      `${gated ? "gatedOf" : "productOf"}(${unrolled(pairs, (of) => this.#sum(at * pairs + of), ", ")}, ${this.#nextTo(at)})${addend === undefined ? "" : ` + added${at}`}`;
    const word = `result[(p.resultOffset + n) / ${per}u] = ${pack(output.type, range(per).map(value))};`;
    if (this.#isEarly) return `if (${this.#writes}) { ${word} }`;
    const begin = this.#isDirect
      ? "{"
      : `for (var at = local; at < ${this.#teams * this.#words}u; at += ${this.#division.threads}u) {`;
    return `${begin}
    ${this.#place("base", "at")}
    if (${this.#isDirect ? this.#writes : `n < ${this.#made}u`}) { ${addend === undefined ? "" : this.#added("let ")} ${word} }
  }`;
  }

  /** The columns of an invocation's team, from `base` on; past the end the last one. */
  #ownColumns(base: string): string {
    const { lanes, columns } = this.#division;
    return `let begin = ${base} + local / ${lanes}u * ${columns}u; ${unrolled(columns, (column) => `let n${column} = min(begin + ${column}u, ${this.#work.n - 1}u);`, " ")}`;
  }

  /** Loads chunks of all columns, from `start` on. */
  #load(start: string): string {
    const { columns } = this.#division;
    return chunkLoads(start, columns, this.#work.weights, this.#division).join("\n    ");
  }

  /** Multiplies the chunks of one load. */
  #product(step: number): string {
    const { weights } = this.#work;
    const { chunk, chunks } = weights;
    const { lanes, columns, ahead } = this.#division;
    const quads = range(chunk / 4);
    const staged = isStaged(this.#work, this.#division);
    const values = quads.map((quad) =>
      staged
        ? `let a${quad} = held[${quad * chunks}u + at${step}];`
        : `let a${quad} = leftQuad(0u, 0u, at${step} * ${chunk}u + ${4 * quad}u);`,
    );
    const sum = (column: number): string =>
      `s0_${column} += ${dotOf(
        weights,
        `w${step}_${column}`,
        quads.map((quad) => `a${quad}`),
      )};`;
    return `${chunks % (lanes * ahead) === 0 ? "" : `if (at${step} < ${chunks}u) `}{
    {
      ${values.join(" ")}
      ${unrolled(columns, sum, "\n      ")}
    }
    }`;
  }

  /** True for an invocation that writes the word from column n on. */
  get #writes(): string {
    return `${this.#isDirect ? `lane < ${this.#words}u` : `local < ${this.#teams * this.#words}u`} && n < ${this.#made}u`;
  }

  #nextTo(at: number): string {
    return at === 0 ? "n" : `min(n + ${at}u, ${this.#made - 1}u)`;
  }

  /** From an invocation's place to the columns, from n on, of the word that it writes. */
  #place(base: string, at: string): string {
    const from = `${base}${this.#pairs === 1 ? "" : " / 2u"}`;
    const { lanes, columns } = this.#division;
    const made = columns / this.#pairs;
    return this.#isDirect
      ? `let column = lane * ${this.#per}u; let n = ${from} + local / ${lanes}u * ${made}u + column;`
      : `let team = ${at} / ${this.#words}u;
    let column = ${at} % ${this.#words}u * ${this.#per}u;
    let n = ${from} + team * ${made}u + column;`;
  }

  #added(declare: string): string {
    return unrolled(this.#per, (at) => `${declare}added${at} = addendOf(${this.#nextTo(at)});`, " ");
  }

  /** The sum of a column, counted from `column` on; of pairs where there is a gate. */
  #sum(at: number): string {
    const step = this.#per * this.#pairs;
    const last = this.#words - 1;
    return this.#isDirect
      ? range(last).reduceRight(
          (otherwise, word) => `select(${otherwise}, s0_${word * step + at}, lane == ${word}u)`,
          `s0_${last * step + at}`,
        )
      : `sumOf(team, ${this.#pairs === 1 ? "" : "2u * "}column + ${at}u)`;
  }
}
