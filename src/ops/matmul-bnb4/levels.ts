/** What each of the 16 levels of 4 bits stands for, as a part of the largest in its block. */

const third = 0.33333333;

/** FP4, then NF4: quant_type counts them. */
export const levels: readonly (readonly number[])[] = [
  [0, 5.208333333e-3, 0.66666667, 1, third, 0.5, 0.16666667, 0.25],
  [
    -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
  ],
].map((list) => (list.length === 8 ? [...list, ...list.map((level) => -level)] : list).map(Math.fround));
