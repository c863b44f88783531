/** The tokens of the latest answer, one by one: how likely each was, what else could have come, and its row. */
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { memo } from "preact/compat";
import { useEffect, useRef } from "preact/hooks";
import type { DrawnToken } from "../hosts/host.js";
import { lookProblem, lookUp } from "../state/alternatives.js";
import { set, settings } from "../state/settings.js";
import { drawn, making } from "../state/talk.js";
import { countText, shareText, tokenText } from "../words.js";

/** Tokens that are shown one by one, the latest; how often, while they come. */
const mostTokens = 400;
const tokenMilliseconds = 1000;

/** How long a token is pointed at before it is looked up. */
const restMilliseconds = 120;

/** Tokens in a row, in one element: a run that is whole is not drawn again, and goes as one. `tokens` grows where it is: its length tells. */
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
    <span class="run">
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
    </span>
  );
});

/** How many tokens are drawn together. */
const runLength = 40;

export function Tokens({ marked }: { readonly marked: { value: number | undefined } }): VNode {
  const looked = useSignal(0);
  const box = useRef<HTMLDivElement>(null);
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
  const isOver = making.value === undefined;
  useEffect(() => {
    if (one === undefined || one.top !== undefined || !isOver) return;
    const timer = setTimeout(() => void lookUp(at), restMilliseconds);
    return () => clearTimeout(timer);
  }, [one, isOver]);
  useEffect(() => {
    if (one?.top?.some(({ text }) => text === "") === true) void one.spell?.().then(() => looked.value++);
  }, [one]);
  // The latest token is in sight while they come, and the one that is walked to.
  useEffect(() => {
    const element = box.current!;
    if (making.peek() !== undefined && one === undefined) element.scrollTop = element.scrollHeight;
  }, [tokens.length]);
  useEffect(() => {
    if (document.activeElement !== box.current) return;
    box.current?.querySelector(".marked")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const move = (by: number): void =>
    void (marked.value = row(
      Math.min(tokens.length - 1, Math.max(first, (one === undefined ? first - Math.min(0, by) : at) + by)),
    ));
  return (
    <section class="tokens">
      <h3>
        Tokens of this answer{" "}
        {first > 0 ? (
          <small>
            the last {tokens.length - first} of {countText(tokens.length)}
          </small>
        ) : null}
      </h3>
      <div
        class="spans"
        ref={box}
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
      {tokens.some(({ probability }) => probability !== undefined) ? (
        <p class="note keys">
          <span>
            <i class="sure" /> the model was sure
          </span>
          <span>
            <i /> others were as likely
          </span>
        </p>
      ) : null}
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
                {lookProblem.value !== ""
                  ? lookProblem.value
                  : isOver
                    ? "What else could have come?"
                    : "What else could have come is asked for once the answer is there."}
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
      <label class="note check">
        <input
          type="checkbox"
          checked={settings.value.probabilities === "all"}
          onChange={({ currentTarget }) => set("probabilities", currentTarget.checked ? "all" : "asked")}
        />
        <span>Ask for the probability of every token of the next answer, which makes it a little slower</span>
      </label>
    </section>
  );
}
