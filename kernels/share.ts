/** How parts share work: part p of `parts` has the tasks from shareStart(p) to shareStart(p + 1). */

// @ts-ignore: decorator
@inline
export function shareStart(tasks: i32, part: i32, parts: i32): i32 {
  return <i32>((<i64>tasks * part) / parts);
}
