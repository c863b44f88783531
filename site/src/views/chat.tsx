/** The conversation in the middle: messages and the empty state. Follows the text's end while the reader is there. */
import { type Signal, useComputed, useSignal } from "@preact/signals";
import type { RefObject, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { begin, current, currentMode, host, making, panel, path, say } from "../state/talk.js";
import { Compose } from "./compose.js";
import { Icon } from "./icon.js";
import { Message } from "./message.js";

const openings = {
  raw: ["Once upon a time there was a king who", "The old woman opened the door, and", "“Who are you?” asked the fox."],
  chat: [
    "Explain a KV cache to a ten-year-old.",
    "Write a haiku about writing in place.",
    "Compare a list and a linked list in a table.",
  ],
} as const;

function Empty(): VNode {
  const { model, kind } = host.value;
  const facts = model.value;
  const mode = currentMode.value;
  return (
    <section class="empty">
      <h2>{mode === "raw" ? "Begin a text. The model goes on." : "Ask something."}</h2>
      <p>
        {kind === "browser"
          ? "A language model that runs in this page. Nothing you write leaves it."
          : "A language model on this server: nothing is sent anywhere else."}{" "}
        Its cache is written in place: open{" "}
        <button type="button" class="link" onClick={() => (panel.value = "cache")}>
          the cache
        </button>{" "}
        and watch.
      </p>
      {facts !== undefined && !facts.hasTemplate ? (
        <p class="note boxed">
          {mode === "raw" ? (
            <>
              “{facts.name}” has no chat template: it continues texts and does not answer questions. Give it a
              beginning.
            </>
          ) : (
            <>
              “{facts.name}” has no chat template: each message is a paragraph, and the answer is the next one. It is
              better at{" "}
              <button type="button" class="link" onClick={() => begin("raw")}>
                continuing a text
              </button>
              .
            </>
          )}
        </p>
      ) : null}
      <ul class="openings" aria-label="Openings">
        {openings[mode].map((text) => (
          <li key={text}>
            <button type="button" disabled={facts === undefined} onClick={() => say(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The way back to the text's end, for who has read far above it. */
function ToEnd({
  isAway,
  scroller,
}: {
  readonly isAway: Signal<boolean>;
  readonly scroller: RefObject<HTMLDivElement | null>;
}): VNode | null {
  return isAway.value ? (
    <div class="to-end">
      <button
        type="button"
        class="round"
        title="To the end"
        onClick={() => {
          const element = scroller.current!;
          element.scrollTop = element.scrollHeight;
          element.focus();
        }}
      >
        <Icon name="down" />
        <span class="hidden">To the end</span>
      </button>
    </div>
  ) : null;
}

export function Chat(): VNode {
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const isAway = useSignal(false);
  const way = path.value;
  const siblings = useComputed(() => {
    const all = new Map<string, string[]>();
    for (const { id, parent = "" } of current.value.said) {
      const known = all.get(parent);
      if (known === undefined) all.set(parent, [id]);
      else known.push(id);
    }
    return all;
  });
  const same = useRef(new Map<string, readonly string[]>());
  // The same list as before where it holds the same: messages that did not change are not drawn again.
  const siblingsOf = (parent: string): readonly string[] => {
    const [now, before] = [siblings.value.get(parent) ?? [], same.current.get(parent)];
    if (before?.length === now.length) return before;
    same.current.set(parent, now);
    return now;
  };
  const asked = way.at(-2)?.id;
  useLayoutEffect(() => {
    follows.current = true;
  }, [asked, current.value.id]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element !== null && follows.current) element.scrollTop = element.scrollHeight;
  });
  // A frame that becomes smaller stays at the text's end.
  useEffect(() => {
    const element = scroller.current!;
    const observer = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const isRaw = current.value.mode === "raw";
  return (
    <main class="chat">
      <div
        class="scroll"
        ref={scroller}
        tabIndex={0}
        role="region"
        aria-label="Conversation"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          const below = scrollHeight - scrollTop - clientHeight;
          follows.current = below < 60;
          isAway.value = below > clientHeight / 2;
        }}
      >
        <div class={`messages${isRaw ? " as-text" : ""}`}>
          {way.length === 0 ? <Empty /> : null}
          {way.map((said) => (
            <Message
              key={said.id}
              said={said}
              siblings={siblingsOf(said.parent ?? "")}
              isMaking={making.value?.id === said.id}
              isRaw={isRaw}
            />
          ))}
        </div>
      </div>
      <ToEnd isAway={isAway} scroller={scroller} />
      <Compose />
    </main>
  );
}
