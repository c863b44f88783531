/** Sizes of memory for people. */

/** `1.5 MiB` */
export function bytesText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = bytes;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  const digits = unit === 0 ? Math.round(size * 10) / 10 : size >= 100 ? Math.round(size) : size.toFixed(1);
  return `${digits} ${units[unit]}`;
}
