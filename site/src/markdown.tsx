/**
 * Model output as Markdown: a lexer's tokens become elements, one by one. Nothing is ever parsed as HTML; what is no known token is text. While a
 * text grows only its last blocks are read again.
 */
import { type ComponentChildren, h, type VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { lexer, type Token, type Tokens } from "marked";
import { piecesOf } from "./highlight.js";

/** Deeper than this, text stays text: nobody writes it, and every level costs a stack. */
const mostDepth = 24;

/** Longer than this, a text is shown as it is. */
const mostCharacters = 200_000;

/** A block that is longer, while it grows, is shown as it is until it is whole. */
const mostTail = 20_000;

/** Only what leads to other pages, and nothing that runs. */
const safeLink = (href: string): string | undefined => (/^(https?:\/\/|mailto:)/i.test(href) ? href : undefined);

/** Five characters that HTML has names for, which the lexer writes so. */
const plain = (text: string): string =>
  text.replace(
    /&(amp|lt|gt|quot|#39);/g,
    (_, name: string) => ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" })[name]!,
  );

/** Which way a list, a quote or a table runs: as its first letter does. What has blocks of its own cannot ask the browser by dir="auto". */
const directionOf = (text: string): "rtl" | "ltr" =>
  /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(/\p{L}/u.exec(text)?.[0] ?? "") ? "rtl" : "ltr";

function inline(tokens: readonly Token[] | undefined, depth: number): ComponentChildren {
  if (tokens === undefined) return undefined;
  if (depth > mostDepth) return tokens.map(({ raw }) => raw).join("");
  return tokens.map((token, at) => {
    const inner = (): ComponentChildren => inline((token as Tokens.Strong).tokens, depth + 1);
    switch (token.type) {
      case "strong":
      case "em":
      case "del":
        return h(token.type, { key: at }, inner());
      case "codespan":
        return <code key={at}>{plain((token as Tokens.Codespan).text)}</code>;
      case "br":
        return <br key={at} />;
      case "link": {
        const href = safeLink((token as Tokens.Link).href);
        if (href === undefined) return token.raw;
        return (
          <a key={at} href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">
            {inner()}
          </a>
        );
      }
      case "escape":
        return plain((token as Tokens.Escape).text);
      case "text":
        return (token as Tokens.Text).tokens === undefined ? plain((token as Tokens.Text).text) : inner();
      default:
        // Images are not fetched, HTML is not read.
        return token.raw;
    }
  });
}

function Code({ text, language }: { readonly text: string; readonly language: string | undefined }): VNode {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <figure class="code">
      <figcaption>
        <span>{language === undefined || language === "" ? "code" : language}</span>
        <button type="button" onClick={() => void copy()}>
          {copied ? "Copied" : "Copy"}
        </button>
      </figcaption>
      <pre tabIndex={0} dir="ltr">
        <code>
          {piecesOf(text, language).map(([kind, piece], at) =>
            kind === undefined ? (
              piece
            ) : (
              <span key={at} class={`hl-${kind}`}>
                {piece}
              </span>
            ),
          )}
        </code>
      </pre>
    </figure>
  );
}

function block(token: Token, key: number | string, depth: number): ComponentChildren {
  if (depth > mostDepth) return token.raw;
  switch (token.type) {
    case "space":
    case "def":
      return undefined;
    case "heading":
      // Below the page's own headings.
      return h(
        `h${Math.min(6, (token as Tokens.Heading).depth + 2)}`,
        { key, dir: "auto" },
        inline((token as Tokens.Heading).tokens, depth),
      );
    case "paragraph":
      return (
        <p key={key} dir="auto">
          {inline((token as Tokens.Paragraph).tokens, depth)}
        </p>
      );
    case "text":
      return (
        <span key={key}>{inline((token as Tokens.Text).tokens, depth) ?? plain((token as Tokens.Text).text)}</span>
      );
    case "code":
      return <Code key={key} text={(token as Tokens.Code).text} language={(token as Tokens.Code).lang} />;
    case "blockquote":
      return (
        <blockquote key={key} dir={directionOf(token.raw)}>
          {blocks((token as Tokens.Blockquote).tokens, depth + 1)}
        </blockquote>
      );
    case "hr":
      return <hr key={key} />;
    case "list": {
      const { ordered, start, items } = token as Tokens.List;
      const rows = items.map((item, at) => (
        <li key={at}>
          {item.task ? <input type="checkbox" checked={item.checked === true} disabled aria-label="task" /> : undefined}
          {blocks(item.tokens, depth + 1)}
        </li>
      ));
      return ordered ? (
        <ol key={key} dir={directionOf(token.raw)} start={Number(start) || 1}>
          {rows}
        </ol>
      ) : (
        <ul key={key} dir={directionOf(token.raw)}>
          {rows}
        </ul>
      );
    }
    case "table": {
      const { header, rows, align } = token as Tokens.Table;
      const cell = (as: "th" | "td", each: Tokens.TableCell, at: number): VNode =>
        h(as, { key: at, dir: "auto", class: align[at] ? `to-${align[at]}` : undefined }, inline(each.tokens, depth));
      return (
        <div key={key} class="table" dir={directionOf(token.raw)} tabIndex={0} role="region" aria-label="table">
          <table>
            <thead>
              <tr>{header.map((each, at) => cell("th", each, at))}</tr>
            </thead>
            <tbody>
              {rows.map((row, line) => (
                <tr key={line}>{row.map((each, at) => cell("td", each, at))}</tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    default:
      return (
        <p key={key} dir="auto">
          {token.raw}
        </p>
      );
  }
}

const blocks = (tokens: readonly Token[], depth: number): ComponentChildren =>
  tokens.map((token, at) => block(token, at, depth));

/** Deep quotes and lists cost the lexer a stack before anything is shown. */
const isBomb = (text: string): boolean => /^[ \t]*(?:>[ \t]*){32}/m.test(text) || /[[(*_~`!]{256}/.test(text);

/** The blocks of a text; undefined for one that the lexer cannot take. */
function read(text: string): readonly Token[] | undefined {
  if (text.length > mostCharacters || isBomb(text)) return undefined;
  try {
    return lexer(text);
  } catch {
    return undefined;
  }
}

/** A text as Markdown. */
export function Markdown({ text, isGrowing }: { readonly text: string; readonly isGrowing: boolean }): VNode {
  const known = useRef({ text: "", shown: [] as ComponentChildren[] });
  if (!text.startsWith(known.current.text)) known.current = { text: "", shown: [] };
  const tail = text.slice(known.current.text.length);
  const asIs = (
    <p class="as-is" dir="auto">
      {tail}
    </p>
  );
  if (isGrowing && tail.length > mostTail) return <div class="markdown">{[...known.current.shown, asIs]}</div>;
  const tokens = read(tail);
  if (tokens === undefined) return <div class="markdown">{[...known.current.shown, asIs]}</div>;
  // The last two blocks may still become something else.
  const settled = isGrowing ? Math.max(0, tokens.length - 2) : 0;
  for (const token of tokens.slice(0, settled)) {
    known.current.shown.push(block(token, known.current.text.length, 0));
    known.current.text += token.raw;
  }
  const rest = tokens.slice(settled).map((token, at) => block(token, `${known.current.text.length}+${at}`, 0));
  return <div class="markdown">{[...known.current.shown, ...rest]}</div>;
}
