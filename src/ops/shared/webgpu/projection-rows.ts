/**
 * Products of one row with all that stands around them, in one dispatch: what a decoder does for each token of one text. A workgroup keeps the row, times
 * the norm's factors, in its memory; the norm itself is one number, which the sums are multiplied by at the end. Lanes share a team's columns, load their
 * weights before they wait for the row, and put their sums together. Several rows are in `few-rows.ts`.
 */
import type { Operand } from "../../../graph/kernel.js";
import type { DeviceTraits, Dispatch } from "../../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, read, workgroupsFor } from "../../../webgpu-kernels/wgsl.js";
import { functionsFor } from "./functions.js";
import { aloneTeam, powerOfTwo } from "./few-rows-division.js";
import { dotOf, type Piece, type Weights } from "./product-operands.js";
import { range } from "./product-tiles.js";

/** One product of one row. Its result has n columns, or n / 2 where pairs of them are a gate and what it lets through. */
interface RowProjection {
  readonly n: number;
  readonly k: number;
  /** Has `leftQuad`. */
  readonly left: Piece;
  readonly weights: Weights;
  /** Has `factorQuad`: what the normalized rows are multiplied by. */
  readonly norm: { readonly factor: Piece; readonly epsilon: number } | undefined;
  readonly bias: Operand | undefined;
  readonly gated: boolean;
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

/** Workgroups that keep a device busy: with more of them, each does several turns. */
const enoughWorkgroups = 2048;

/** Products of four that an invocation writes out one by one. */
const mostTerms = 256;

function divide(work: RowProjection, { subgroup = 1 }: DeviceTraits): Division {
  const { n, weights, norm, gated, output } = work;
  const { chunk, chunks } = weights;
  // With a norm, all of a workgroup share the row that it keeps. Without, one team has the workgroup for itself and reads what it needs.
  const least = Math.max(32, subgroup);
  const together = Math.min(least, Math.max(2, subgroup, powerOfTwo(chunks)));
  const [threads, lanes] =
    norm === undefined ? aloneTeam(chunks, least, subgroup) : [Math.max(128, together), together];
  // A team writes whole words of the result.
  const columns = Math.max(2, perWord(output.type) * (gated ? 2 : 1), n > 32 * enoughWorkgroups ? 4 : 2);
  const most = Math.min(24 / columns, mostTerms / (columns * (chunk / 4)));
  const ahead = Math.min(Math.ceil(chunks / lanes), Math.max(1, Math.floor(most)));
  const workgroups = n / ((threads / lanes) * columns);
  const turns = workgroups < 2 * enoughWorkgroups ? 1 : Math.min(8, Math.floor(workgroups / enoughWorkgroups));
  return { threads, lanes, columns, ahead, turns };
}

/** The row is kept where its norm is taken, or where several teams read it. */
const isStaged = ({ norm }: RowProjection, teams: number): boolean => norm !== undefined || teams > 1;

/** True if a workgroup can hold what it keeps: the row, sums and squares. */
export function fitsWorkgroup(work: RowProjection, device: DeviceTraits): boolean {
  const { norm, weights } = work;
  const { threads, lanes, columns } = divide(work, device);
  const parts = threads / (device.subgroup ?? 1);
  const row = isStaged(work, threads / lanes) ? 4 * weights.chunk * weights.chunks : 0;
  return row + 4 * parts * columns + (norm === undefined ? 0 : 8 * parts) <= device.workgroupBytes;
}

/** The dispatch of such a product. Elements of the output must not share words over rows. */
export function rowProjection(work: RowProjection, device: DeviceTraits): Dispatch {
  const { n, k, left, weights, norm, bias, gated, addend, output } = work;
  const { threads, lanes, columns, ahead, turns } = divide(work, device);
  const { chunk, chunks } = weights;
  const [own, steps, quads] = [range(columns), range(ahead), range(chunk / 4)];
  const width = device.subgroup ?? 1;
  const teams = threads / lanes;
  const per = perWord(output.type);
  const pairs = gated ? 2 : 1;
  const made = columns / pairs;
  const words = Math.max(1, made / per);
  const resultColumns = gated ? n / 2 : n;
  const each = Math.ceil(chunks / lanes);
  const load = (start: string): string =>
    steps
      .flatMap((step) => [
        `let at${step} = ${start} + ${step * lanes}u + lane;`,
        ...own.map((column) => `let w${step}_${column} = weightChunk(n${column}, min(at${step}, ${chunks - 1}u));`),
      ])
      .join("\n    ");
  const whole = chunks % (lanes * ahead) === 0;
  // A team that is a subgroup has its sums at hand: its first lanes write them.
  const direct = lanes === width && words <= width;
  const once = each <= ahead;
  const staged = isStaged(work, teams);
  const multiply = steps
    .map(
      (step) => `${whole ? "" : `if (at${step} < ${chunks}u) `}{
    {
      ${quads
        .map((quad) =>
          staged
            ? `let a${quad} = held[${quad * chunks}u + at${step}];`
            : `let a${quad} = leftQuad(0u, 0u, at${step} * ${chunk}u + ${4 * quad}u);`,
        )
        .join(" ")}
      ${own
        .map(
          (column) =>
            `s0_${column} += ${dotOf(
              weights,
              `w${step}_${column}`,
              quads.map((quad) => `a${quad}`),
            )};`,
        )
        .join("\n      ")}
    }
    }`,
    )
    .join("\n    ");
  const all = own.map((column) => ({ sum: `s0_${column}`, at: column }));
  /** Words of the result that a workgroup makes in a turn: where an invocation has one at most, it knows from the beginning which. */
  const places = teams * words;
  const early = turns === 1 && (direct || places <= threads);
  const writes = `${direct ? `lane < ${words}u` : `local < ${places}u`} && n < ${resultColumns}u`;
  const nextTo = (at: number): string => (at === 0 ? "n" : `min(n + ${at}u, ${resultColumns - 1}u)`);
  /** From an invocation's place to the columns, from n on, of the word that it writes. */
  const placeCode = (base: string, at: string): string =>
    direct
      ? `let column = lane * ${per}u; let n = ${base}${gated ? " / 2u" : ""} + local / ${lanes}u * ${made}u + column;`
      : `let team = ${at} / ${words}u;
    let column = ${at} % ${words}u * ${per}u;
    let n = ${base}${gated ? " / 2u" : ""} + team * ${made}u + column;`;
  const addedOf = (declare: string): string =>
    range(per)
      .map((at) => `${declare}added${at} = addendOf(${nextTo(at)});`)
      .join(" ");
  /** The sum of a column, counted from `column` on; of pairs where there is a gate. */
  const sumAt = (at: number): string =>
    direct
      ? range(words - 1).reduceRight(
          (otherwise, word) => `select(${otherwise}, s0_${word * per * pairs + at}, lane == ${word}u)`,
          `s0_${(words - 1) * per * pairs + at}`,
        )
      : `sumOf(team, ${pairs === 1 ? "" : "2u * "}column + ${at}u)`;
  const store = `result[(p.resultOffset + n) / ${per}u] = ${pack(
    output.type,
    range(per).map(
      (at) =>
        `${gated ? "gatedOf" : "productOf"}(${range(pairs)
          .map((of) => sumAt(at * pairs + of))
          .join(", ")}, ${nextTo(at)})${addend === undefined ? "" : ` + added${at}`}`,
    ),
  )};`;
  const code = `${packing}
${gated ? functionsFor("sigmoid(") : ""}
${left.functions}
${norm?.factor.functions ?? ""}
${weights.functions}
${staged ? `var<workgroup> held: array<vec4f, ${quads.length * chunks}>;` : ""}
${norm === undefined ? "" : squaresCode(work, threads, width)}
fn productOf(sum: f32, n: u32) -> f32 {
  return ${norm === undefined ? "sum" : "inverse() * sum"}${bias === undefined ? "" : ` + ${read(bias.type, "bias", "p.biasOffset + n")}`};
}
${
  gated
    ? `fn gatedOf(first: f32, second: f32, n: u32) -> f32 {
  let gate = productOf(first, 2u * n);
  return gate * sigmoid(gate) * productOf(second, 2u * n + 1u);
}`
    : ""
}
${addend === undefined ? "" : `fn addendOf(n: u32) -> f32 { return ${read(addend.type, "addend", "p.addendOffset + n")}; }`}
${direct ? "" : sumsCode(threads, lanes, width, columns)}
@compute @workgroup_size(${threads}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let lane = local % ${lanes}u;
  let first = (group.y * groups.x + group.x) * ${teams * columns * turns}u;
  ${turns === 1 && once ? `${firstColumns("first")}\n    ${load("0u")}` : ""}
  ${early ? placeCode("first", "local") : ""}
  ${
    early && addend !== undefined
      ? `${range(per)
          .map((at) => `var added${at} = 0.0;`)
          .join(" ")} if (${writes}) { ${addedOf("")} }`
      : ""
  }
  ${staged ? `${stageCode(work, threads, width)}\n  workgroupBarrier();` : ""}
  ${turns === 1 ? "{ let base = first;" : `for (var turn = 0u; turn < ${turns}u; turn++) { let base = first + turn * ${teams * columns}u;`}
  ${turns === 1 && once ? "" : firstColumns("base")}
  ${all.map(({ sum }) => `var ${sum} = 0.0;`).join(" ")}
  ${
    once
      ? `${turns === 1 ? "" : load("0u")}
    ${multiply}`
      : `for (var start = 0u; start < ${chunks}u; start += ${lanes * ahead}u) {
    ${load("start")}
    ${multiply}
  }`
  }
  ${turns === 1 || direct ? "" : "workgroupBarrier();"}
  ${width > 1 ? all.map(({ sum }) => `${sum} = subgroupAdd(${sum});`).join(" ") : ""}
  ${
    direct
      ? ""
      : width > 1
        ? `if (local % ${width}u == 0u) { ${all.map(({ sum, at }) => `parts[(local / ${width}u) * ${columns}u + ${at}u] = ${sum};`).join(" ")} }
  workgroupBarrier();`
        : `${all.map(({ sum, at }) => `parts[local * ${columns}u + ${at}u] = ${sum};`).join(" ")}
  workgroupBarrier();
  for (var half = ${lanes / 2}u; half > 0u; half >>= 1u) {
    if (lane < half) { for (var at = 0u; at < ${columns}u; at++) { parts[local * ${columns}u + at] += parts[(local + half) * ${columns}u + at]; } }
    workgroupBarrier();
  }`
  }
  ${
    early
      ? `if (${writes}) { ${store} }`
      : `${direct ? "{" : `for (var at = local; at < ${places}u; at += ${threads}u) {`}
    ${placeCode("base", "at")}
    if (${direct ? writes : `n < ${resultColumns}u`}) { ${addend === undefined ? "" : addedOf("let ")} ${store} }
  }`
  }
  }
}`;
  function firstColumns(base: string): string {
    return `let begin = ${base} + local / ${lanes}u * ${columns}u; ${own.map((column) => `let n${column} = min(begin + ${column}u, ${n - 1}u);`).join(" ")}`;
  }
  return {
    name: gated ? "gatedProjection" : "projection",
    code,
    bindings: [
      ...left.bindings,
      ...weights.bindings,
      ...(norm?.factor.bindings ?? []),
      ...(bias === undefined ? [] : [{ name: "bias", of: bias }]),
      ...(addend === undefined ? [] : [{ name: "addend", of: addend }]),
      { name: "result", of: output, writes: true },
    ],
    parameters: {
      k,
      resultOffset: output.place.offset,
      ...left.parameters,
      ...weights.parameters,
      ...norm?.factor.parameters,
      ...(norm === undefined ? {} : { epsilon: { float: norm.epsilon } }),
      ...(bias === undefined ? {} : { biasOffset: bias.place.offset }),
      ...(addend === undefined ? {} : { addendOffset: addend.place.offset }),
    },
    fixed: true,
    workgroups: workgroupsFor(Math.ceil(n / (columns * turns)), teams, device.mostWorkgroups),
  };
}

/** Memory in which subgroups or invocations leave their sums, and `sumOf(team, column)`. */
const sumsCode = (threads: number, lanes: number, width: number, columns: number): string => `
var<workgroup> parts: array<f32, ${(threads / width) * columns}>;
fn sumOf(team: u32, column: u32) -> f32 {
  ${
    width > 1
      ? `var sum = 0.0;
  for (var part = 0u; part < ${lanes / width}u; part++) { sum += parts[(team * ${lanes / width}u + part) * ${columns}u + column]; }
  return sum;`
      : `return parts[team * ${lanes}u * ${columns}u + column];`
  }
}`;

/** 2^-72: brings squares of what overflows float32 back into its range. */
const small = "2.117582368135751e-22";

/** `inverse()`: one by the root of the row's mean square. Squares are summed as they are and of values made smaller, for rows that overflow. */
function squaresCode({ k }: RowProjection, threads: number, width: number): string {
  const count = threads / width;
  return `
var<workgroup> squares: array<vec2f, ${count}>;
fn inverse() -> f32 {
  var sum = vec2f();
  for (var at = 0u; at < ${count}u; at++) { sum += squares[at]; }
  if (sum.x > 3.0e38) { return ${small} * inverseSqrt(sum.y / ${k}.0); }
  return inverseSqrt(sum.x / ${k}.0 + p.epsilon);
}`;
}

/** Brings the row into workgroup memory: quads of a chunk apart, so that lanes with neighbouring chunks read neighbours. */
function stageCode({ norm, weights: { chunk, chunks } }: RowProjection, threads: number, width: number): string {
  const quads = chunk / 4;
  const sum = norm !== undefined;
  return `{
    ${sum ? "var square = vec2f();" : ""}
    for (var quad = local; quad < ${quads * chunks}u; quad += ${threads}u) {
      let values = leftQuad(0u, 0u, 4u * quad);
      ${sum ? `let reduced = ${small} * values; square += vec2f(dot(values, values), dot(reduced, reduced));` : ""}
      held[quad % ${quads}u * ${chunks}u + quad / ${quads}u] = values${sum ? " * factorQuad(0u, 0u, 4u * quad)" : ""};
    }
    ${
      !sum
        ? ""
        : width > 1
          ? `square = subgroupAdd(square);
    if (local % ${width}u == 0u) { squares[local / ${width}u] = square; }`
          : `squares[local] = square;`
    }
  }`;
}
