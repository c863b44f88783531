/** The pool of blocks, drawn while it fills, and what a cell under the pointer is. */
import { useSignal, useSignalEffect } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import {
  type CellKind,
  cellAt,
  cellOf,
  type Colours,
  type DrawnText,
  type Grid,
  gridOf,
  Painting,
  type Picture,
  pictureOf,
} from "../cache-picture.js";
import type { CacheFacts } from "../hosts/host.js";
import { settings } from "../state/settings.js";
import { drawn, host, making } from "../state/talk.js";
import { countText, tokenText } from "../words.js";

/** How often the pool is asked for while a text is made. */
const lookMilliseconds = 250;

/** What cells are, in a word and in a sentence. */
const kinds = {
  written: ["made now", "A token of this answer: its row was written when it came."],
  read: ["read now", "A token of the prompt that was read for this answer."],
  reused: ["reused", "A token of the prompt that was there already, and was not read again."],
  shared: ["shared by branches", "Several branches begin with these tokens: one row serves all of them."],
  own: ["held by another text", "Rows of another text of yours that is being made."],
  kept: ["kept for later", "These rows are not in use now. A prompt that begins alike reuses them."],
  evicted: ["evicted", "Held another text, which had to give way to this one."],
  other: ["somebody else’s", "Rows of other users of this server: only that they are taken is told."],
  free: ["free", "Room for more tokens."],
} as const satisfies Record<CellKind, readonly [word: string, sentence: string]>;

const colours = (): Colours => {
  const style = getComputedStyle(document.documentElement);
  const cells = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, style.getPropertyValue(`--cell-${kind}`)]));
  return { cells: cells as Record<CellKind, string>, mark: style.getPropertyValue("--text") };
};

/** What the pool looked like at the last look, and what has become of it. */
interface Seen {
  readonly facts: CacheFacts | undefined;
  readonly blocks: readonly number[];
  readonly evicted: ReadonlySet<number>;
}

/** The blocks of the text that was made last: those of the text that changed. */
function blocksOf(facts: CacheFacts, before: Seen, rows: number): readonly number[] {
  const close = facts.texts.toSorted((a, b) => Math.abs(a.rows - rows) - Math.abs(b.rows - rows))[0];
  return close?.blocks ?? before.blocks;
}

/** Who holds blocks, in a sentence. */
function heldText({ blocks, texts }: CacheFacts): string {
  const count = (...uses: readonly string[]): number => blocks.filter(({ use }) => uses.includes(use)).length;
  const [shared, kept, others] = [count("shared"), count("kept"), count("other")];
  const blocksAre = (of: number): string => (of === 1 ? "1 block is" : `${countText(of)} blocks are`);
  const each = texts
    .slice(-4)
    .map(
      ({ rows, blocks: own }) => `${countText(rows)} rows in ${own.length} ${own.length === 1 ? "block" : "blocks"}`,
    );
  const more = texts.length - each.length;
  const yours = [...(more > 0 ? [`${more} more`] : []), ...each].join(", ");
  return [
    texts.length === 0 ? "No text of yours holds blocks now" : `Your texts hold ${yours}`,
    ...(shared > 0 ? [`${blocksAre(shared)} shared`] : []),
    ...(kept > 0 ? [`${blocksAre(kept)} kept for prompts that begin alike`] : []),
    ...(others > 0 ? [`${blocksAre(others)} somebody else’s`] : []),
    `${countText(count("free"))} of ${countText(blocks.length)} are free.`,
  ].join("; ");
}

export function Pool({ marked }: { readonly marked: { value: number | undefined } }): VNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const seen = useRef<Seen>({ facts: undefined, blocks: [], evicted: new Set() });
  const shown = useRef<{ picture: Picture; grid: Grid } | undefined>(undefined);
  const painted = useRef(new Painting());
  // Asked for when they change: looking at the page between two of its changes costs a layout.
  const width = useRef(0);
  const ink = useRef<Colours | undefined>(undefined);
  const told = useSignal("");
  const held = useSignal("");
  const looks = useSignal(0);
  const look = async (): Promise<void> => {
    const facts = await host.value.cache().catch(() => undefined);
    if (facts === undefined) return;
    const { stats } = drawn.value;
    const before = seen.current;
    const blocks = stats === undefined ? [] : blocksOf(facts, before, stats.promptTokens + stats.newTokens - 1);
    const firstNew = Math.floor((stats?.reusedTokens ?? 0) / facts.blockSize);
    const known = (block: number): boolean =>
      ["kept", "own"].includes(before.facts?.blocks[block]?.use ?? "free") && !before.blocks.includes(block);
    const evicted = new Set([...before.evicted, ...blocks.slice(firstNew).filter(known)]);
    seen.current = { facts, blocks, evicted };
    held.value = heldText(facts);
    looks.value++;
  };
  useEffect(() => void look(), [host.value.model.value]);
  // Another scheme has other colours, another width another grid.
  useEffect(() => {
    const again = (): void => {
      ink.current = undefined;
      looks.value++;
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const observer = new ResizeObserver(([entry]) => {
      width.current = entry.contentRect.width;
      looks.value++;
    });
    scheme.addEventListener("change", again);
    observer.observe(canvas.current!);
    return () => {
      scheme.removeEventListener("change", again);
      observer.disconnect();
    };
  }, []);
  // One look at a time, while there is something to see; one more at the end.
  useSignalEffect(() => {
    if (making.value === undefined) return void look();
    seen.current = { ...seen.current, blocks: [], evicted: new Set() };
    let isOver = false;
    const again = async (): Promise<void> => {
      while (!isOver) {
        await look();
        await new Promise((resolve) => setTimeout(resolve, lookMilliseconds));
      }
    };
    void again();
    return () => void (isOver = true);
  });
  useSignalEffect(() => {
    void settings.value.theme;
    ink.current = undefined;
    looks.value = looks.peek() + 1;
  });
  useSignalEffect(() => {
    const { stats } = drawn.value;
    void [looks.value, marked.value];
    const element = canvas.current;
    const context = host.value.model.value?.context ?? 0;
    if (element === null || context === 0 || width.current === 0) return;
    const { facts, blocks, evicted } = seen.current;
    const text: DrawnText | undefined = stats === undefined ? undefined : { stats, blocks };
    const picture = pictureOf(facts, context, text, evicted);
    const grid = gridOf(picture, width.current);
    const scale = Math.min(2, devicePixelRatio);
    const [across, down] = [Math.round(width.current * scale), Math.round(grid.height * scale)];
    if (element.width !== across || element.height !== down) {
      element.style.height = `${grid.height}px`;
      element.width = across;
      element.height = down;
      painted.current.forget();
    }
    shown.current = { picture, grid };
    ink.current ??= colours();
    painted.current.draw(element.getContext("2d")!, picture, grid, ink.current, marked.value);
  });
  const point = (event: PointerEvent): void => {
    const { picture, grid } = shown.current ?? {};
    const at = picture && cellAt(picture, grid!, event.offsetX, event.offsetY);
    if (at === undefined || picture === undefined) return;
    const { kind, token } = cellOf(picture, at.block, at.row);
    const made = token === undefined ? -1 : token - (drawn.value.stats?.promptTokens ?? 0);
    marked.value = token;
    const one = drawn.value.tokens[made];
    told.value = `Block ${at.block}, row ${at.row}: ${token === undefined ? "" : `token ${token}, `}${kinds[kind][0]}${one === undefined ? "" : ` – “${tokenText(one.text)}”`}`;
  };
  return (
    <figure class="pool">
      <canvas
        ref={canvas}
        role="img"
        aria-label="Blocks of the cache, row by row"
        title="Point at a square to see whose it is"
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={() => {
          marked.value = undefined;
          told.value = "";
        }}
      />
      <div class="note">
        <p role="status">{told.value}</p>
        <p data-held hidden={told.value !== ""}>
          {held}
        </p>
      </div>
      <figcaption>
        {Object.entries(kinds)
          .filter(([kind]) => kind !== "other" || host.value.kind === "server")
          .map(([kind, [word, sentence]]) => (
            <span key={kind} title={sentence}>
              <i style={{ background: `var(--cell-${kind})` }} />
              {word}
            </span>
          ))}
      </figcaption>
    </figure>
  );
}
