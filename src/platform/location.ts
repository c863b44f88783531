/** Which external data locations are acceptable by their spelling alone, on every platform. Opens nothing. */
import { InsituError } from "../base/error.js";

/**
 * The segments of a location relative to the model's folder. Throws `external-data` for everything that is absolute,
 * climbs, or means something else to another system than it does to this one.
 */
export function locationSegments(location: string): string[] {
  const refuse = (rule: string): never => {
    throw new InsituError("external-data", `location ${JSON.stringify(location)} ${rule}`);
  };
  if (location === "") refuse("is empty");
  if (location.includes("\0")) refuse("holds a NUL");
  if (location.includes("\\")) refuse("holds a backslash: use /");
  if (location.startsWith("/")) refuse("is absolute: it must lie in the model's folder");
  if (/^[A-Za-z][A-Za-z0-9+.-]*:/.test(location))
    refuse("starts with a drive or a scheme: it must lie in the model's folder");
  const segments = location.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) refuse("climbs with ..: it must lie in the model's folder");
  if (segments.length === 0 || /(^|\/)\.?$/.test(location)) refuse("names a folder");
  return segments;
}
