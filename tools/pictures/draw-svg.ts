/** The little of SVG that pictures need: elements, a themed document, and text widths guessed without a font. */

/** Attributes by name. */
type Attributes = Readonly<Record<string, string | number>>;

const escape = (text: string): string =>
  // XML has no way to write control characters.
  text
    .replace(/\p{Cc}/gu, "·")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;");

const rounded = (value: string | number): string =>
  typeof value === "number" ? String(Math.round(value * 10) / 10) : escape(value);

/** An element with text inside, or with markup where `raw` says so. */
export function element(name: string, attributes: Attributes, content = "", raw = false): string {
  const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${rounded(value)}"`);
  const inner = raw ? content : escape(content);
  return inner === "" ? `<${name}${list.join("")}/>` : `<${name}${list.join("")}>${inner}</${name}>`;
}

/** Pixels of one character, roughly, in the styles below. */
const characterWidths = { sans: 6.7, bold: 7.9, mono: 7.3, small: 6.1 } as const;

/** The width a text is drawn in, roughly: pictures leave room for fonts that run wider. */
export const textWidth = (text: string, style: keyof typeof characterWidths): number =>
  text.length * characterWidths[style];

/** A text cut in its middle to at most `most` characters. */
export function fitMiddle(text: string, most: number): string {
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/** Lines that fit a width. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line === undefined || textWidth(`${line} ${word}`, "sans") > width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}

/** A colour for light readers and one for dark ones, by name. */
type Palette = Readonly<Record<string, readonly [light: string, dark: string]>>;

const colours: Palette = {
  ground: ["#ffffff", "#0d1117"],
  edge: ["#d1d9e0", "#3d444d"],
  text: ["#1f2328", "#e6edf3"],
  muted: ["#59636e", "#9da7b1"],
  chip: ["#f6f8fa", "#1c2128"],
  old: ["#9cc9ff", "#2f6bb8"],
  new: ["#5bc77a", "#2c8f47"],
  copy: ["#ffb86b", "#b0661c"],
  good: ["#1a7f37", "#238636"],
  bad: ["#bc4c00", "#a8560f"],
  fault: ["#cf222e", "#ff7b72"],
  faultGround: ["#ffebe9", "#3c1618"],
  cell: ["#dde3e9", "#2b3138"],
  ours: ["#1b7f5c", "#3fb68b"],
  theirs: ["#7a5cb5", "#b79be8"],
  third: ["#b56f00", "#e0a344"],
  fourth: ["#3a5fa0", "#82a8e8"],
  fifth: ["#8b3a62", "#d787b3"],
};

/**
 * CSS in which `$name` is a colour of the palette: plain rules with the light colours, which every program that draws SVG understands, and
 * below them the same for dark readers, for those that ask which the reader is. No variables: some programs paint what they do not know black.
 */
export function themed(rules: string, palette: Palette = colours): string {
  const coloured = (text: string, which: 0 | 1): string =>
    text.replace(/\$(\w+)/g, (_, name: string) => {
      const colour = palette[name];
      if (colour === undefined) throw new Error(`internal: no colour ${name} to draw with`);
      return colour[which];
    });
  const dark = [...rules.matchAll(/([^{}]+)\{([^{}]*)\}/g)].flatMap(([, selector, declarations]) => {
    const changed = declarations.split(";").filter((declaration) => declaration.includes("$"));
    return changed.length === 0 ? [] : [`${selector.trim()}{${coloured(changed.join(";"), 1)}}`];
  });
  return `${coloured(rules, 0)}@media (prefers-color-scheme:dark){${dark.join("")}}`;
}

const style = `
text{font-family:system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;font-size:12px;fill:$text}
.ground{fill:$ground;stroke:$edge}
.title{font-size:15px;font-weight:600}
.muted{fill:$muted}.why{fill:$fault}.small{font-size:11px;fill:$muted}.end{text-anchor:end}.middle{text-anchor:middle}.strong{font-weight:600}
.name,.node{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.name{font-size:12px;font-weight:600;white-space:pre}
.op{font-weight:600;text-anchor:middle}.node{font-size:10px;text-anchor:middle;fill:$muted}.node.strong{font-size:11px;fill:$text;font-weight:400}
.badge.good{fill:$good}.badge.bad{fill:$bad}.badge-text{fill:#ffffff;font-weight:600;font-size:11px;text-anchor:middle}
.bar.old{fill:$old}.bar.new{fill:$new}.bar.copy{fill:$copy}.cells{fill:url(#cells);stroke:$edge;stroke-width:.5}.cell-line{stroke:$cell;stroke-opacity:.7}
.chip{fill:$chip;stroke:$edge}.chip.writer{stroke:$good;stroke-width:1.6}.chip.copier{stroke:$bad;stroke-width:1.6}
.chip.fault{fill:$faultGround;stroke:$fault;stroke-width:2}
line{stroke-width:1.5}.rule{stroke:$edge;stroke-width:1}
.reads{stroke:$muted}.writes{stroke:$good;stroke-width:2.5}.copies{stroke:$bad;stroke-width:4}.fault-line{stroke:$fault;stroke-width:2.5}
.tip-reads{fill:$muted}.tip-writes{fill:$good}.tip-copies{fill:$bad}.tip-fault-line{fill:$fault}
`;

const marker = (kind: string, size: number): string =>
  `<marker id="${kind}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="${size}" markerHeight="${size}" orient="auto"><path d="M0 0 8 4 0 8z" class="tip-${kind}"/></marker>`;

const definitions = [
  `<defs><pattern id="cells" width="9" height="12" patternUnits="userSpaceOnUse"><path d="M.5 0V12" class="cell-line"/></pattern>`,
  `${marker("reads", 5)}${marker("writes", 4)}${marker("copies", 3)}${marker("fault-line", 4)}</defs>`,
].join("\n");

/** A whole document of a size, with its title for those who cannot see it. `more` are rules of its own, with colours as `themed` takes them. */
export function picture(width: number, height: number, title: string, parts: readonly string[], more = ""): string {
  const [w, h] = [Math.ceil(width), Math.ceil(height)];
  const body = parts.join("\n");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${themed(style + more)}</style>`,
    ...(/url\(#|class="cells"/.test(body) ? [definitions] : []),
    `<rect class="ground" x=".5" y=".5" width="${w - 1}" height="${h - 1}" rx="10"/>`,
    body,
    "</svg>",
    "",
  ].join("\n");
}
