/** The cache, live: what was written and would have been moved, the pool's blocks filling row by row, the tokens, and the plan's verdicts. */
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import type { CacheVerdict } from "../hosts/host.js";
import { drawn, host, path, totals } from "../state/talk.js";
import { bytesText, countText } from "../words.js";
import { Pool } from "./cache-pool.js";
import { Tokens } from "./cache-tokens.js";

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
      <p class="note">
        For every token of a text the model keeps a row of notes: its KV cache. Each square is one token’s row. A new
        row is written where it belongs; a runtime that copies its caches moves all rows, for every token.
      </p>
      <Bytes />
      <Pool marked={marked} />
      <Tokens marked={marked} />
      <Verdicts />
    </div>
  );
}
