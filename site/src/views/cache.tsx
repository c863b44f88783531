/** The cache, live: the pool's blocks filling row by row, what a copying runtime would have moved, each token's probability, and the plan's verdicts. */
import { useSignal, useSignalEffect } from "@preact/signals";
import type { VNode } from "preact";
import { memo } from "preact/compat";
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
import type { CacheFacts, CacheVerdict, DrawnToken } from "../hosts/host.js";
import { settings } from "../state/settings.js";
import { drawn, host, making, path, totals } from "../state/talk.js";
import { bytesText, countText, shareText, tokenText } from "../words.js";

/** How often the pool is asked for while a text is made. */
const lookMilliseconds = 150;

/** Tokens that are shown one by one, the latest; how often, while they come. */
const mostTokens = 400;
const tokenMilliseconds = 400;

const kinds = {
  written: "made now",
  read: "read now",
  reused: "reused",
  shared: "shared by branches",
  own: "held by another text",
  kept: "kept for later",
  evicted: "evicted",
  other: "somebody else’s",
  free: "free",
} as const satisfies Record<CellKind, string>;

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

function Bytes(): VNode {
  const rowBytes = useSignal(0);
  const stats = drawn.value.stats ?? path.value.findLast((each) => each.stats !== undefined)?.stats;
  useEffect(() => {
    void host.value.cache().then(
      (facts) => (rowBytes.value = facts?.rowBytes ?? 0),
      () => {},
    );
  }, [host.value.model.value]);
  const rows = stats === undefined ? 0 : stats.promptTokens - stats.reusedTokens + stats.newTokens;
  const written = stats?.writtenBytes ?? rows * rowBytes.value;
  // A cache that grows is copied as far as it reaches, once for each token.
  const all = stats === undefined ? 0 : stats.promptTokens + stats.newTokens;
  const copying =
    stats?.copyingBytes ?? (stats === undefined ? 0 : stats.newTokens * (all - stats.newTokens / 2) * rowBytes.value);
  return (
    <dl class="bytes">
      <div>
        <dt>written in place</dt>
        <dd data-written>{bytesText(written)}</dd>
      </div>
      <div>
        <dt>moved</dt>
        <dd>{bytesText(stats?.movedBytes ?? 0)}</dd>
      </div>
      <div class="dim">
        <dt>a copying runtime moves</dt>
        <dd>{bytesText(copying)}</dd>
      </div>
      <div class="dim">
        <dt>prompt tokens reused</dt>
        <dd>
          {countText(totals.value.reused)} of {countText(totals.value.reused + totals.value.read)}
        </dd>
      </div>
    </dl>
  );
}

function Pool({ marked }: { readonly marked: { value: number | undefined } }): VNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const seen = useRef<Seen>({ facts: undefined, blocks: [], evicted: new Set() });
  const shown = useRef<{ picture: Picture; grid: Grid } | undefined>(undefined);
  const painted = useRef(new Painting());
  const told = useSignal("Point at a cell.");
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
    looks.value++;
  };
  useEffect(() => void look(), [host.value.model.value]);
  // Another scheme has other colours, another width another grid.
  useEffect(() => {
    const again = (): void => void looks.value++;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const observer = new ResizeObserver(again);
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
    const { stats } = drawn.value;
    void [looks.value, settings.value.theme, marked.value];
    const element = canvas.current;
    const context = host.value.model.value?.context ?? 0;
    if (element === null || context === 0) return;
    const { facts, blocks, evicted } = seen.current;
    const text: DrawnText | undefined = stats === undefined ? undefined : { stats, blocks };
    const picture = pictureOf(facts, context, text, evicted);
    const grid = gridOf(picture, element.clientWidth);
    const scale = Math.min(2, devicePixelRatio);
    const [width, height] = [Math.round(element.clientWidth * scale), Math.round(grid.height * scale)];
    if (element.width !== width || element.height !== height) {
      element.style.height = `${grid.height}px`;
      element.width = width;
      element.height = height;
      painted.current.forget();
    }
    shown.current = { picture, grid };
    painted.current.draw(element.getContext("2d")!, picture, grid, colours(), marked.value);
  });
  const point = (event: PointerEvent): void => {
    const { picture, grid } = shown.current ?? {};
    const at = picture && cellAt(picture, grid!, event.offsetX, event.offsetY);
    if (at === undefined || picture === undefined) return;
    const { kind, token } = cellOf(picture, at.block, at.row);
    const made = token === undefined ? -1 : token - (drawn.value.stats?.promptTokens ?? 0);
    marked.value = token;
    const one = drawn.value.tokens[made];
    told.value = `Block ${at.block}, row ${at.row}: ${token === undefined ? "" : `token ${token}, `}${kinds[kind]}${one === undefined ? "" : ` – “${tokenText(one.text)}”`}`;
  };
  return (
    <figure class="pool">
      <canvas
        ref={canvas}
        role="img"
        aria-label="Blocks of the cache, row by row"
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={() => (marked.value = undefined)}
      />
      <p class="note" role="status">
        {told.value}
      </p>
      <figcaption>
        {Object.entries(kinds)
          .filter(([kind]) => kind !== "other" || host.value.kind === "server")
          .map(([kind, words]) => (
            <span key={kind}>
              <i style={{ background: `var(--cell-${kind})` }} />
              {words}
            </span>
          ))}
      </figcaption>
    </figure>
  );
}

/** Tokens in a row; a run that is whole is not drawn again. `tokens` grows where it is: its length tells. */
const Spans = memo(function Spans({
  tokens,
  from,
  to,
  marked,
}: {
  readonly tokens: readonly DrawnToken[];
  readonly from: number;
  readonly to: number;
  readonly marked: number | undefined;
}): VNode {
  return (
    <>
      {tokens.slice(from, to).map(({ text, probability }, index) => (
        <span
          key={from + index}
          data-at={from + index}
          class={from + index === marked ? "marked" : ""}
          style={probability === undefined ? undefined : { "--p": probability.toFixed(2) }}
        >
          {text}
        </span>
      ))}
    </>
  );
});

/** How many tokens are drawn together. */
const runLength = 40;

function Tokens({ marked }: { readonly marked: { value: number | undefined } }): VNode {
  const looked = useSignal(0);
  // Some hundred elements: they are drawn a few times a second, not with every frame.
  useEffect(() => {
    if (making.value === undefined) return;
    const timer = setInterval(() => looked.value++, tokenMilliseconds);
    return () => clearInterval(timer);
  }, [making.value?.id]);
  void looked.value;
  const { tokens, stats } = making.value === undefined ? drawn.value : drawn.peek();
  const row = (at: number): number => (stats?.promptTokens ?? 0) + at;
  const at = marked.value === undefined ? -1 : marked.value - row(0);
  const one = tokens[at];
  const last = Math.ceil(tokens.length / runLength);
  const firstRun = Math.max(0, last - mostTokens / runLength);
  const first = firstRun * runLength;
  const runs = Array.from({ length: last - firstRun }, (_, index) => firstRun + index);
  useEffect(() => {
    if (one?.top?.some(({ text }) => text === "") === true) void one.spell?.().then(() => looked.value++);
  }, [one]);
  const move = (by: number): void =>
    void (marked.value = row(
      Math.min(tokens.length - 1, Math.max(first, (one === undefined ? first - Math.min(0, by) : at) + by)),
    ));
  return (
    <section class="tokens">
      <h3>Tokens of this answer</h3>
      <div
        class="spans"
        tabIndex={0}
        role="group"
        aria-label="Tokens; arrow keys go from one to the next"
        onKeyDown={({ key }) => (key === "ArrowRight" ? move(1) : key === "ArrowLeft" ? move(-1) : undefined)}
        onPointerOver={({ target }) => {
          const index = (target as HTMLElement).dataset["at"];
          if (index !== undefined) marked.value = row(Number(index));
        }}
      >
        {runs.map((run) => {
          const [from, to] = [run * runLength, Math.min(tokens.length, (run + 1) * runLength)];
          return <Spans key={run} {...{ tokens, from, to }} marked={at >= from && at < to ? at : undefined} />;
        })}
      </div>
      <div class="alternatives" aria-live="polite">
        {one === undefined ? (
          <p class="note">
            {tokens.length === 0
              ? "The tokens of the next answer are listed here, each with what else could have come."
              : "Point at a token, or walk through them with the arrow keys."}
          </p>
        ) : (
          <>
            <p>
              <code>{tokenText(one.text)}</code> {one.probability === undefined ? "" : shareText(one.probability)}{" "}
              <span class="dim">row {row(at)} of every cache</span>
            </p>
            {one.top === undefined ? (
              <p class="note">
                Probabilities are asked for while this view is open: make the answer again to see them.
              </p>
            ) : null}
            <ol>
              {one.top?.map((each, index) => (
                <li key={index} style={{ "--p": each.probability.toFixed(3) }}>
                  <code>{tokenText(each.text)}</code> <span>{shareText(each.probability)}</span>
                </li>
              ))}
            </ol>
          </>
        )}
      </div>
    </section>
  );
}

function Verdicts(): VNode | null {
  const all = useSignal<readonly CacheVerdict[]>([]);
  const chosen = useSignal(0);
  useEffect(() => {
    void host.value.verdicts().then(
      (told) => (all.value = told),
      () => {},
    );
  }, [host.value.model.value]);
  const one = all.value[chosen.value];
  if (one === undefined) return null;
  const inPlace = all.value.filter((each) => each.inPlace).length;
  return (
    <section class="verdicts">
      <h3>The plan’s verdict</h3>
      <p>
        {inPlace === all.value.length
          ? `All ${inPlace} caches are written in place.`
          : `${inPlace} of ${all.value.length} caches are written in place.`}
      </p>
      <div class="chips">
        {all.value.map((each, at) => (
          <button
            key={each.input}
            type="button"
            class={each.inPlace ? "good" : "bad"}
            aria-pressed={at === chosen.value}
            title={each.input}
            onClick={() => (chosen.value = at)}
          >
            {each.input.replace(/^past_key_values\.|^(key|value)_cache\./, "").replace(/^past\./, "")}
          </button>
        ))}
      </div>
      <p class="verdict" role="status" data-verdict>
        <code>{one.input}</code> {one.inPlace ? "in place" : "copied"}: {one.words}
      </p>
    </section>
  );
}

export function CachePanel(): VNode {
  const marked = useSignal<number | undefined>(undefined);
  return (
    <div class="cache">
      <Bytes />
      <Pool marked={marked} />
      <Tokens marked={marked} />
      <Verdicts />
    </div>
  );
}
