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

const light = `--ground:#fff;--edge:#d1d9e0;--text:#1f2328;--muted:#59636e;--chip:#f6f8fa;--old:#9cc9ff;--new:#5bc77a;--copy:#ffb86b;--good:#1a7f37;--bad:#bc4c00;--fault:#cf222e;--fault-ground:#ffebe9;--cell:rgba(0,0,0,.13)`;
const dark = `--ground:#0d1117;--edge:#3d444d;--text:#e6edf3;--muted:#9da7b1;--chip:#1c2128;--old:#2f6bb8;--new:#2c8f47;--copy:#b0661c;--good:#238636;--bad:#a8560f;--fault:#ff7b72;--fault-ground:#3c1618;--cell:rgba(255,255,255,.16)`;

const style = `
svg{${light}}
@media (prefers-color-scheme:dark){svg{${dark}}}
text{font-family:system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;font-size:12px;fill:var(--text)}
.ground{fill:var(--ground);stroke:var(--edge)}
.title{font-size:15px;font-weight:600}
.muted{fill:var(--muted)}.why{fill:var(--fault)}.small{font-size:11px;fill:var(--muted)}.end{text-anchor:end}
.name,.node{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.name{font-size:12px;font-weight:600;white-space:pre}
.op{font-weight:600;text-anchor:middle}.node{font-size:10px;text-anchor:middle;fill:var(--muted)}.node.strong{font-size:11px;fill:var(--text)}
.badge.good{fill:var(--good)}.badge.bad{fill:var(--bad)}.badge-text{fill:#fff;font-weight:600;font-size:11px;text-anchor:middle}
.bar.old{fill:var(--old)}.bar.new{fill:var(--new)}.bar.copy{fill:var(--copy)}.cells{fill:url(#cells);stroke:var(--edge);stroke-width:.5}
.chip{fill:var(--chip);stroke:var(--edge)}.chip.writer{stroke:var(--good);stroke-width:1.6}.chip.copier{stroke:var(--bad);stroke-width:1.6}
.chip.fault{fill:var(--fault-ground);stroke:var(--fault);stroke-width:2}
line{stroke-width:1.5}.rule{stroke:var(--edge);stroke-width:1}
.reads{stroke:var(--muted)}.writes{stroke:var(--good);stroke-width:2.5}.copies{stroke:var(--bad);stroke-width:4}.fault-line{stroke:var(--fault);stroke-width:2.5}
`;

const marker = (id: string, colour: string, size: number): string =>
  `<marker id="${id}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="${size}" markerHeight="${size}" orient="auto"><path d="M0 0 8 4 0 8z" style="fill:var(--${colour})"/></marker>`;

/** A whole document of a size, with its title for those who cannot see it. */
export function picture(width: number, height: number, title: string, parts: readonly string[]): string {
  const [w, h] = [Math.ceil(width), Math.ceil(height)];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${style}</style>`,
    `<defs><pattern id="cells" width="9" height="12" patternUnits="userSpaceOnUse"><path d="M.5 0V12" style="stroke:var(--cell)"/></pattern>`,
    `${marker("reads", "muted", 5)}${marker("writes", "good", 4)}${marker("copies", "bad", 3)}${marker("fault-line", "fault", 4)}</defs>`,
    `<rect class="ground" x=".5" y=".5" width="${w - 1}" height="${h - 1}" rx="10"/>`,
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}
