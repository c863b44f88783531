/** The codes in jobs that several kernels know. Those of one kernel alone stand beside it. */

/**
 * Element types in jobs. Most kernels know the first three; masks are bool too, and `elements`, `reduce` and `scan` know all.
 * @codes elementCode
 */
export const FLOAT32: i32 = 0;
export const FLOAT16: i32 = 1;
export const BFLOAT16: i32 = 2;
export const BOOL: i32 = 3;
export const INT8: i32 = 4;
export const UINT8: i32 = 5;
export const INT16: i32 = 6;
export const UINT16: i32 = 7;
export const INT32: i32 = 8;
export const UINT32: i32 = 9;
export const INT64: i32 = 10;
export const UINT64: i32 = 11;
export const FLOAT64: i32 = 12;

/**
 * Types of pages in jobs: those of elementCode, and bytes with a scale for each token and head.
 * @codes pageCode PAGE_
 */
export const PAGE_FLOAT32: i32 = FLOAT32;
export const PAGE_FLOAT16: i32 = FLOAT16;
export const PAGE_BFLOAT16: i32 = BFLOAT16;
export const PAGE_INT8: i32 = 20;
export const PAGE_FLOAT8E4M3FN: i32 = 21;
export const PAGE_FLOAT8E5M2: i32 = 22;
export const PAGE_INT4: i32 = 23; // two to a byte, with 8 added: strides are those of bytes

/**
 * Types of weights in jobs that have a scale.
 * @codes levelCode LEVEL_
 */
export const LEVEL_INT8: i32 = INT8;
export const LEVEL_UINT8: i32 = UINT8;
export const LEVEL_INT4: i32 = 30;
export const LEVEL_UINT4: i32 = 31;

/**
 * What `elements` computes in: i64, u64 (the same bits) or f64. Bytes are bools, words elements of four bytes that are only chosen between;
 * outputs of both lie together.
 * @codes registerKind
 */
export const INTEGER: i32 = 0;
export const UNSIGNED: i32 = 1;
export const DOUBLE: i32 = 2;
export const BYTES: i32 = 3;
export const WORDS: i32 = 4;
