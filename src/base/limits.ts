/**
 * What a model's file may ask for before it runs, all in one place. A file is bytes that anybody may have written: reading, inference,
 * passes and planning must end soon, in memory that follows its size. Each limit lies far above what exporters write. Beyond some a
 * load is refused, with an error that names the limit; beyond the others less is known beforehand, and nothing else changes.
 * docs/limits.md tells them to users.
 */

/** Objects that a file of `bytes` may be made of: each takes some hundred bytes of memory, and real ones more than 20 of the file. */
export const mostObjects = (bytes: number): number => Math.min(2 ** 21, 2 ** 15 + Math.floor(bytes / 20));

/** Dimensions of a tensor, in a file or as a result. */
export const mostDimensions = 64;

/** Graphs in graphs, types in types, groups in groups. Walks over them recurse. */
export const deepestNesting = 64;

/** Functions that call functions. */
export const deepestCalls = 64;

/**
 * Parts (nodes, and what they list) that calls of local functions may be expanded to, in a file that has `parts` itself: calls of calls
 * multiply, and a call costs the file a few bytes.
 */
export const mostExpandedParts = (parts: number): number => 2 ** 15 + 8 * parts;

/** Characters of a name that is made for a value inside a function; longer ones are cut, since each call makes its own. */
export const longestMadeName = 160;

/** Characters of a name in messages and in explanations. */
export const longestShownName = 160;

/** Shape rules applied to a graph of `nodes`, those of its bodies included: loops in loops look at their bodies several times. */
export const mostRules = (nodes: number): number => 2 ** 14 + 16 * nodes;

/** Terms of a symbolic dimension, and pairs of terms that one product multiplies out. What has more is an unknown dimension. */
export const mostTerms = 64;

/** Characters of a symbolic dimension that was computed. What is longer is an unknown dimension. */
export const longestDimension = 512;

/** Terms of symbolic dimensions worked on for a graph of `nodes`; what is computed after that is unknown. */
export const mostTermsWorkedOn = (nodes: number): number => 2 ** 17 + 32 * nodes;

/** Elements that a node computed beforehand may read and write. */
export const mostFoldedElements: number = 2 ** 16;

/**
 * Work that goes into constants of a graph of `nodes`, in elements read and written, or in what an operator declares where that is more.
 * Nodes that are left over run with the model; those of at most `alwaysFolded` are computed in any case, since they decide shapes.
 */
export const mostFoldedWork = (nodes: number): number => 2 ** 23 + alwaysFolded * nodes;
export const alwaysFolded = 64;

/** Nodes that planning a graph of `nodes` looks at to find out what may come before what; where that does not do, caches are copied. */
export const mostOrderSteps = (nodes: number): number => 2 ** 20 + 256 * nodes;

/** Steps that finding and rewriting the caches of a graph of `nodes` may take, and terms of symbols on the way; beyond, it stays as it is. */
export const mostRewriteSteps = (nodes: number): number => 2 ** 15 + 256 * nodes;
export const mostRewriteTerms = (nodes: number): number => 2 ** 17 + 512 * nodes;

/** Characters of the expression that an element of a mask or of positions is followed to. */
export const longestElement: number = 2 ** 12;

/** Elements that the sparse tensors of one model may have when dense, all together: a file pays for their non-zeros only. */
export const mostDenseElements: number = 2 ** 24;

/** How often the tensors of a model may together ask for the bytes of one weight file. */
export const mostOverlap = 4;
