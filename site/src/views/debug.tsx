/** What the page measures of itself, in a corner: tasks that held the main thread while an answer came, and else, and layout that shifted. `?debug` shows it. */
import { effect, signal } from "@preact/signals";
import type { VNode } from "preact";
import { making } from "../state/talk.js";

const nothing = { longTasks: 0, longest: 0, others: 0, shift: 0 } as const;

const measured = signal<{ readonly [Name in keyof typeof nothing]: number }>(nothing);

/** When the latest answer began and ended. */
const answer = { began: Infinity, ended: Infinity };

/** Begins to measure. */
export function measure(): void {
  const observe = (type: string, hear: (entry: PerformanceEntry) => void): void => {
    if (!PerformanceObserver.supportedEntryTypes.includes(type)) return;
    new PerformanceObserver((list) => list.getEntries().forEach(hear)).observe({ type, buffered: true });
  };
  effect(() => {
    if (making.value !== undefined) Object.assign(answer, { began: performance.now(), ended: Infinity });
    else if (answer.ended === Infinity) answer.ended = performance.now();
  });
  observe("longtask", ({ startTime, duration }) => {
    const { longTasks, longest, others, shift } = measured.value;
    measured.value =
      startTime + duration > answer.began && startTime < answer.ended
        ? { longTasks: longTasks + 1, longest: Math.max(longest, duration), others, shift }
        : { longTasks, longest, others: others + 1, shift };
  });
  observe("layout-shift", (entry) => {
    const {
      value,
      hadRecentInput,
      sources = [],
    } = entry as PerformanceEntry & {
      readonly value: number;
      readonly hadRecentInput: boolean;
      readonly sources?: readonly { readonly node: Node | null }[];
    };
    // What is told here is no part of the page.
    const isOwn = ({ node }: { readonly node: Node | null }): boolean =>
      (node instanceof Element ? node : node?.parentElement)?.closest(".debug") != null;
    if (!hadRecentInput && !(sources.length > 0 && sources.every(isOwn)))
      measured.value = { ...measured.value, shift: measured.value.shift + value };
  });
}

export function Debug(): VNode {
  const { longTasks, longest, others, shift } = measured.value;
  return (
    <output class="debug" data-long-tasks={longTasks} data-longest={longest} data-shift={shift}>
      tasks over 50 ms while answering: {longTasks}, longest {longest.toFixed(0)} ms; else: {others} · layout shift{" "}
      {shift.toFixed(3)}{" "}
      <button type="button" onClick={() => (measured.value = nothing)}>
        0
      </button>
    </output>
  );
}
