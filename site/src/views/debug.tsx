/** What the page measures of itself, in a corner: tasks that held the main thread, and layout that shifted. `?debug` shows it. */
import { signal } from "@preact/signals";
import type { VNode } from "preact";

const measured = signal({ longTasks: 0, longest: 0, shift: 0 });

/** Begins to measure. */
export function measure(): void {
  const observe = (type: string, hear: (entry: PerformanceEntry) => void): void => {
    if (!PerformanceObserver.supportedEntryTypes.includes(type)) return;
    new PerformanceObserver((list) => list.getEntries().forEach(hear)).observe({ type, buffered: true });
  };
  observe("longtask", ({ duration }) => {
    const { longTasks, longest, ...others } = measured.value;
    measured.value = { ...others, longTasks: longTasks + 1, longest: Math.max(longest, duration) };
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
  const { longTasks, longest, shift } = measured.value;
  return (
    <output class="debug" data-long-tasks={longTasks} data-longest={longest} data-shift={shift}>
      tasks over 50 ms: {longTasks}, longest {longest.toFixed(0)} ms · layout shift {shift.toFixed(3)}{" "}
      <button type="button" onClick={() => (measured.value = { longTasks: 0, longest: 0, shift: 0 })}>
        0
      </button>
    </output>
  );
}
