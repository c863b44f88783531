/** The conversations at the side: search, open, rename, remove, export, import. */
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type Conversation, markdownOf, titleOf } from "../state/conversation.js";
import { exported, found, isForgetful, query, removeConversation, takeIn } from "../state/history.js";
import { begin, current, currentId, open, rename } from "../state/talk.js";
import { useFocusBack } from "./focus.js";
import { Icon } from "./icon.js";
import { Twice } from "./twice.js";

/** The time of what was said today, the day of what was said before. */
function when(updated: number): string {
  const date = new Date(updated);
  return date.toDateString() === new Date().toDateString()
    ? date.toLocaleTimeString([], { hour: "numeric", minute: "2-digit" })
    : date.toLocaleDateString();
}

function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A field for a conversation's name. */
function Rename({ of, onDone }: { readonly of: Conversation; readonly onDone: () => void }): VNode {
  const own = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    own.current!.focus();
    own.current!.select();
  }, []);
  useFocusBack(own, () => () => document.getElementById(of.id)?.querySelector<HTMLElement>("[data-rename]"));
  const isOver = useRef(false);
  const leave = (): void => {
    isOver.current = true;
    onDone();
  };
  // A field that goes is left once more.
  const keep = (): void => {
    if (isOver.current) return;
    const name = own.current!.value;
    if (name !== titleOf(of)) rename(of.id, name);
    leave();
  };
  return (
    <input
      ref={own}
      class="grow"
      dir="auto"
      aria-label={`A name for “${titleOf(of)}”`}
      value={titleOf(of)}
      onBlur={keep}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== "Escape") return;
        event.preventDefault();
        if (event.key === "Escape") leave();
        else keep();
      }}
    />
  );
}

export function History({ onClose }: { readonly onClose: () => void }): VNode {
  const file = useRef<HTMLInputElement>(null);
  const told = useSignal("");
  const renamed = useSignal<string | undefined>(undefined);
  const read = async (chosen: File | undefined): Promise<void> => {
    if (chosen === undefined) return;
    try {
      const count = await takeIn(await chosen.text());
      told.value = `${count} ${count === 1 ? "conversation" : "conversations"} imported.`;
    } catch (error) {
      told.value = `Nothing was imported: ${(error as Error).message}.`;
    }
  };
  return (
    <nav class="history" aria-label="Conversations">
      <div class="row">
        <button type="button" class="main grow" onClick={() => (begin(current.value.mode), onClose())}>
          <Icon name="add" /> New
        </button>
        <button type="button" class="only-narrow" aria-label="Close the list" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <input
        id="search"
        type="search"
        placeholder="Search"
        aria-label="Search conversations"
        value={query.value}
        onInput={({ currentTarget }) => (query.value = currentTarget.value)}
      />
      <ul>
        {found.value.map((each) => (
          <li key={each.id} id={each.id} class={each.id === currentId.value ? "current" : ""}>
            {renamed.value === each.id ? (
              <Rename of={each} onDone={() => (renamed.value = undefined)} />
            ) : (
              <>
                <button
                  type="button"
                  class="open"
                  aria-current={each.id === currentId.value}
                  onClick={() => (open(each.id), onClose())}
                >
                  <span dir="auto">{titleOf(each)}</span>
                  <small>
                    {when(each.updated)}
                    {each.mode === "raw" ? " · text" : ""}
                  </small>
                </button>
                <span class="actions">
                  <button
                    type="button"
                    aria-label={`Rename “${titleOf(each)}”`}
                    title="Rename"
                    data-rename
                    onClick={() => (renamed.value = each.id)}
                  >
                    <Icon name="edit" />
                  </button>
                  <Twice
                    label={`Remove “${titleOf(each)}”`}
                    onSure={() => {
                      document.getElementById("search")?.focus();
                      void removeConversation(each.id);
                      if (each.id === current.value.id) begin(each.mode);
                    }}
                  />
                </span>
              </>
            )}
          </li>
        ))}
      </ul>
      {found.value.length === 0 ? (
        <p class="note">{query.value === "" ? "What you ask is kept here, in this browser." : "Nothing found."}</p>
      ) : null}
      {isForgetful.value ? (
        <p class="note bad">
          This browser keeps nothing for this page: conversations end with it. Export what you want to keep.
        </p>
      ) : null}
      <div class="row foot">
        <button type="button" onClick={() => download("insitu-conversations.json", exported(), "application/json")}>
          <Icon name="out" /> Export
        </button>
        <button type="button" onClick={() => file.current?.click()}>
          <Icon name="in" /> Import
        </button>
        <button
          type="button"
          title="This conversation as Markdown"
          onClick={() =>
            download(`${titleOf(current.value).slice(0, 40)}.md`, markdownOf(current.value), "text/markdown")
          }
        >
          .md
        </button>
        <input
          ref={file}
          type="file"
          accept="application/json,.json"
          hidden
          aria-label="Import conversations"
          onChange={({ currentTarget }) => void read(currentTarget.files?.[0])}
        />
      </div>
      <p class="note" role="status">
        {told.value}
      </p>
    </nav>
  );
}
