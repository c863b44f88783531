/** Where the keyboard's focus goes when what has it is taken away: without this it is lost, and one begins at the page's top again. */
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** The field where one writes. */
export const field = (): HTMLElement | null => document.getElementById("say");

/** Hands focus on when an element goes that has it. `to` is asked before it goes, and what it returns once it is gone. */
export function useFocusBack(
  own: RefObject<HTMLElement | null>,
  to: (had: Element) => () => HTMLElement | null | undefined,
): void {
  useLayoutEffect(
    () => () => {
      const had = document.activeElement;
      if (had === null || own.current?.contains(had) !== true) return;
      const next = to(had);
      // Behind the drawing that takes the element away, and before the next key.
      queueMicrotask(() => {
        if (document.activeElement === null || document.activeElement === document.body)
          next()?.focus({ preventScroll: true });
      });
    },
    [],
  );
}
