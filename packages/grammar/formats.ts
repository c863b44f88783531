/** Formats of strings as patterns: the strict forms of their RFCs, for machines that read them. What cannot be said by a pattern is left out. */

const leapYear = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const date = `(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|${leapYear}-02-29)`;
const time = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";

const byte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const ipv4 = `(?:${byte}\\.){3}${byte}`;
const h16 = "[0-9a-fA-F]{1,4}";
/** Eight groups; or two colons for at least one of them that is left out. */
const ipv6 = `(?:(?:${h16}:){7}${h16}|(?:${h16}:){6}${ipv4}|(?:${h16}:){1,7}:|:(?::${h16}){1,7}|${[1, 2, 3, 4, 5, 6]
  .map((before) => `(?:${h16}:){${before}}(?::${h16}){1,${7 - before}}`)
  .join("|")}|::(?:${h16}:){0,5}${ipv4}|${[1, 2, 3, 4, 5]
  .map((before) => `(?:${h16}:){${before}}(?::${h16}){0,${5 - before}}:${ipv4}`)
  .join("|")}|::)`;

const label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
/** At most 253 characters: few labels, or shorter ones. Two hyphens in a row would begin what stands for other letters. */
const hostname = `(?!.*--)(?:${[
  [60, 3],
  [28, 7],
]
  .map(([length, more]) => [`[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,${length}}[a-zA-Z0-9])?`, more] as const)
  .map(([each, more]) => `${each}(?:\\.${each}){0,${more}}`)
  .join("|")})`;
const atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+";

const escaped = "%[0-9A-Fa-f]{2}";
const pathCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|${escaped})`;
const path = `(?:/${pathCharacter}*)*`;
const authority = `(?:[A-Za-z0-9._~-]|${escaped})+(?::\\d{1,5})?`;
const queryAndFragment = `(?:\\?(?:${pathCharacter}|[/?])*)?(?:#(?:${pathCharacter}|[/?])*)?`;
const uri = `[a-zA-Z][a-zA-Z0-9+.-]*:(?://${authority}${path}|/?${pathCharacter}+${path})${queryAndFragment}`;
const reference = `(?://${authority}${path}|/(?:${pathCharacter}+${path})?|(?:[A-Za-z0-9._~!$&'()*+,;=@-]|${escaped})+${path})?${queryAndFragment}`;
const variable = `(?:[A-Za-z0-9_]|${escaped})+(?::[1-9]\\d{0,3}|\\*)?`;

const pointer = "(?:/(?:[^~/]|~[01])*)*";
const count = "\\d{1,9}";
const timeOfDuration = `T(?:${count}H(?:${count}M(?:${count}S)?)?|${count}M(?:${count}S)?|${count}S)`;
const dateOfDuration = `(?:${count}Y(?:${count}M(?:${count}D)?)?|${count}M(?:${count}D)?|${count}D)`;

/** Patterns of the formats that there are, from the first to the last character. */
const formats: Readonly<Record<string, string>> = {
  date,
  time,
  "date-time": `${date}T${time}`,
  duration: `P(?:${dateOfDuration}(?:${timeOfDuration})?|${timeOfDuration}|${count}W)`,
  email: `${atom}(?:\\.${atom})*@(?:${label}\\.)+${label}`,
  uuid: "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
  ipv4,
  ipv6,
  hostname,
  uri,
  "uri-reference": reference,
  "uri-template": `(?:[A-Za-z0-9._~!$&()*+,;=:@/?#\\[\\]-]|${escaped}|\\{[+#./;?&]?${variable}(?:,${variable})*\\})*`,
  "json-pointer": pointer,
  // Those with letters beyond ASCII have these among them.
  "idn-email": `${atom}(?:\\.${atom})*@(?:${label}\\.)+${label}`,
  "idn-hostname": hostname,
  iri: uri,
  "iri-reference": reference,
  byte: "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
  "relative-json-pointer": `(?:0|[1-9]\\d{0,8})(?:#|${pointer})`,
};

/** Names that say nothing beyond the pattern beside them: what zod calls the patterns that it writes. */
const named: ReadonlySet<string> = new Set(
  "base64 base64url cidrv4 cidrv6 cuid cuid2 e164 emoji ends_with guid includes ksuid lowercase nanoid starts_with ulid uppercase xid".split(
    " ",
  ),
);

/** The pattern of a format; undefined for one that is not known. */
export const formatPattern = (format: string): string | undefined =>
  Object.hasOwn(formats, format) ? `^(?:${formats[format]})$` : undefined;

/** True for the name of a pattern, which must stand beside it. */
export const isNamedPattern = (format: string): boolean => named.has(format);

/** Names of OpenAPI that tell how a text is shown or kept, and nothing of what is in it. */
const shown: ReadonlySet<string> = new Set(["password", "binary", "markdown", "html", "multi-line"]);

/** True for a format that restricts nothing. */
export const isAnnotation = (format: string): boolean => shown.has(format);
