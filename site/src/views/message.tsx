/** One message: what was said, what it took, and what can be done with it. */
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Said } from "../state/conversation.js";
import {
  begin,
  current,
  goOn,
  host,
  making,
  regenerate,
  rewrite,
  sayOtherwise,
  switched,
  switchTo,
  takeBack,
} from "../state/talk.js";
import { countText, rateText, waitText } from "../words.js";
import { field, useFocusBack } from "./focus.js";
import { Icon } from "./icon.js";
import { Twice } from "./twice.js";

type MarkdownView = typeof import("../markdown.js").Markdown;

/** What reads Markdown, once it has come: a text that only goes on needs none, and the first one is shown before. */
const markdown = signal<MarkdownView | undefined>(undefined);

/** A text as Markdown; as it is until that can be read. */
function Formatted(props: { readonly text: string; readonly isGrowing: boolean }): VNode {
  const Markdown = markdown.value;
  useEffect(() => {
    if (markdown.peek() === undefined) void import("../markdown.js").then((read) => (markdown.value = read.Markdown));
  }, []);
  if (Markdown !== undefined) return <Markdown {...props} />;
  return (
    <div class="markdown">
      <p class="as-is" dir="auto">
        {props.text}
      </p>
    </div>
  );
}

/** Longer than this, what was said is folded. */
const mostShown = 1200;

const copied = signal<string | undefined>(undefined);

async function copy({ id, content }: Said): Promise<void> {
  await navigator.clipboard.writeText(content);
  copied.value = id;
  setTimeout(() => copied.value === id && (copied.value = undefined), 1500);
}

function Folded({ text }: { readonly text: string }): VNode {
  const [isOpen, setOpen] = useState(false);
  if (text.length <= mostShown || isOpen)
    return (
      <p class="as-is" dir="auto">
        {text}
      </p>
    );
  return (
    <>
      <p class="as-is" dir="auto">{`${text.slice(0, mostShown)} …`}</p>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          setOpen(true);
          document.querySelector<HTMLElement>(".scroll")?.focus();
        }}
      >
        Show all {countText(text.length)} characters
      </button>
    </>
  );
}

function Edit({ said, onDone }: { readonly said: Said; readonly onDone: () => void }): VNode {
  const [text, setText] = useState(said.content);
  const isUser = said.role === "user";
  const send = (): void => {
    if (text.trim() === "") return;
    if (!isUser) rewrite(said, text);
    else if (!sayOtherwise(said, text)) return;
    onDone();
  };
  const form = useRef<HTMLFormElement>(null);
  useFocusBack(form, (had) => {
    const message = had.closest(".message");
    return () => message?.querySelector<HTMLElement>("[data-edit]");
  });
  return (
    <form
      ref={form}
      class="edit"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        aria-label={isUser ? "Edit your message" : "Rewrite the answer"}
        dir="auto"
        value={text}
        ref={(element) => element?.focus()}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onDone();
          if (event.key === "Enter" && (isUser ? !event.shiftKey : event.ctrlKey) && !event.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      <div class="row">
        <button type="submit" class="main">
          {isUser ? "Send as a new branch" : "Keep as a new branch"}
        </button>
        <button type="button" onClick={onDone}>
          Cancel
        </button>
      </div>
    </form>
  );
}

/** JSON that was asked for, read; or why it is none. */
function Parsed({ text }: { readonly text: string }): VNode {
  let shown: string;
  try {
    shown = JSON.stringify(JSON.parse(text), undefined, 2);
  } catch (error) {
    return <p class="note bad">Not whole JSON: {(error as Error).message}</p>;
  }
  return (
    <details class="fold" open>
      <summary>Parsed JSON, by your schema</summary>
      <pre tabIndex={0} dir="ltr">
        {shown}
      </pre>
    </details>
  );
}

function Took({ said }: { readonly said: Said }): VNode | null {
  const { stats, finish } = said;
  if (stats === undefined || stats.newTokens === 0) return null;
  const { newTokens, promptTokens, reusedTokens, firstTokenMilliseconds, tokensPerSecond } = stats;
  // The last token is drawn, and has no row yet.
  const isFull = promptTokens + newTokens >= (host.value.model.value?.context ?? Infinity);
  return (
    <p class="note" data-took>
      <span>{countText(newTokens)} tokens</span>
      {tokensPerSecond > 0 ? <span>{rateText(tokensPerSecond)}</span> : null}
      <span>first after {waitText(firstTokenMilliseconds)}</span>
      {promptTokens > 0 ? (
        <span title="tokens of the prompt that were in the cache and were not read again">
          {countText(reusedTokens)} of {countText(promptTokens)} reused
        </span>
      ) : null}
      {finish === "length" ? <span class="warm">{isFull ? "the context is full" : "cut at the limit"}</span> : null}
      {finish === "stopped" ? <span class="warm">stopped</span> : null}
    </p>
  );
}

function Branches({ said, siblings }: { readonly said: Said; readonly siblings: readonly string[] }): VNode | null {
  if (siblings.length < 2) return null;
  const at = siblings.indexOf(said.id);
  const took = switched.value;
  return (
    <span class="branches" role="group" aria-label="Branches">
      <button type="button" aria-label="Branch before" disabled={at === 0} onClick={() => switchTo(said, -1)}>
        <Icon name="back" />
      </button>
      <span aria-label={`branch ${at + 1} of ${siblings.length}`}>
        {at + 1}/{siblings.length}
      </span>
      <button
        type="button"
        aria-label="Next branch"
        disabled={at === siblings.length - 1}
        onClick={() => switchTo(said, 1)}
      >
        <Icon name="next" />
      </button>
      {took?.id === said.id ? (
        <span class="dim" data-switched={took.milliseconds}>
          in {took.milliseconds.toFixed(0)} ms
        </span>
      ) : null}
    </span>
  );
}

interface MessageProps {
  readonly said: Said;
  readonly siblings: readonly string[];
  readonly isMaking: boolean;
  readonly isRaw: boolean;
}

function Body({ said, isMaking, isRaw }: Omit<MessageProps, "siblings">): VNode {
  const { role, content, reasoning, calls = [], isJson, error } = said;
  // A text that goes on begins with a blank, which is no indent.
  if (role === "user") return <Folded text={isRaw ? content.replace(/^ /, "") : content} />;
  if (isRaw)
    return (
      <p class="as-is" dir="auto">
        {content.replace(/^ /, "")}
      </p>
    );
  const isSilent = !isMaking && content === "" && calls.length === 0 && error === undefined;
  return (
    <>
      {reasoning !== undefined ? (
        <details class="fold">
          <summary>{isMaking && content === "" ? "Thinking …" : "Reasoning"}</summary>
          <p class="as-is" dir="auto">
            {reasoning}
          </p>
        </details>
      ) : null}
      {content === "" ? null : <Formatted text={content} isGrowing={isMaking} />}
      {calls.map((call, at) => (
        <details class="fold" key={at} open>
          <summary>
            Calls <code>{call.name}</code>
          </summary>
          <pre tabIndex={0} dir="ltr">
            {call.arguments}
          </pre>
        </details>
      ))}
      {isJson === true && !isMaking && content !== "" ? <Parsed text={content} /> : null}
      {isSilent ? <p class="note">The model ended its answer at once. Ask again, or set a shortest answer.</p> : null}
      {isMaking && content === "" && reasoning === undefined ? (
        <p class="waiting" aria-hidden="true">
          <i />
          <i />
          <i />
        </p>
      ) : null}
    </>
  );
}

/** Who goes through branches finds the same button at the branch that comes; else one goes on writing. */
function nextFocus(had: Element): () => HTMLElement | null | undefined {
  const place = had.closest(".message")!;
  const [all, at] = [place.parentElement, [...(place.parentElement?.children ?? [])].indexOf(place)];
  const label = had.closest(".branches") === null ? undefined : had.getAttribute("aria-label");
  return () => {
    if (label === undefined) return field();
    const branches = all?.children[at]?.querySelector(".branches");
    return branches?.querySelector<HTMLElement>(`[aria-label="${label}"]:enabled, :enabled`) ?? field();
  };
}

export const Message = memo(function Message({ said, siblings, isMaking, isRaw }: MessageProps): VNode {
  const [isEdited, setEdited] = useState(false);
  const { role, error, content } = said;
  const isUser = role === "user";
  const own = useRef<HTMLElement>(null);
  useFocusBack(own, nextFocus);
  const isBusy = making.value !== undefined;
  const isTooLong = error !== undefined && /context|longer than|characters/.test(error);
  return (
    <article
      ref={own}
      class={`message ${role}${isRaw ? " raw" : ""}`}
      aria-label={isUser ? "You" : "Model"}
      aria-busy={isMaking}
    >
      {isEdited ? (
        <Edit said={said} onDone={() => setEdited(false)} />
      ) : (
        <Body said={said} isMaking={isMaking} isRaw={isRaw} />
      )}
      {error !== undefined ? (
        <div class="problem" role="alert">
          <p>{error}</p>
          <div class="row">
            {isTooLong ? (
              <button type="button" class="main" onClick={() => begin(current.value.mode)}>
                New conversation
              </button>
            ) : null}
            <button type="button" class={isTooLong ? "" : "main"} disabled={isBusy} onClick={() => regenerate(said)}>
              Send again
            </button>
            {content !== "" ? (
              <button type="button" disabled={isBusy} onClick={() => goOn(said)}>
                Continue from here
              </button>
            ) : null}
          </div>
        </div>
      ) : null}
      {isMaking || isEdited || (error !== undefined && content === "" && siblings.length < 2) ? null : (
        <footer>
          {isUser ? null : <Took said={said} />}
          <span class="actions">
            <Branches said={said} siblings={siblings} />
            {content !== "" ? (
              <button type="button" onClick={() => void copy(said)} title="Copy">
                <Icon name={copied.value === said.id ? "done" : "copy"} />
                <span class="hidden">{copied.value === said.id ? "Copied" : "Copy"}</span>
              </button>
            ) : null}
            <button
              type="button"
              disabled={isBusy}
              onClick={() => setEdited(true)}
              title={isUser ? "Edit and branch" : "Rewrite the answer"}
              data-edit
            >
              <Icon name="edit" />
              <span class="hidden">{isUser ? "Edit" : "Rewrite"}</span>
            </button>
            {isUser ? null : (
              <>
                <button type="button" disabled={isBusy} onClick={() => regenerate(said)} title="Regenerate">
                  <Icon name="again" />
                  <span class="hidden">Regenerate</span>
                </button>
                <button type="button" disabled={isBusy || content === ""} onClick={() => goOn(said)} title="Continue">
                  <Icon name="more" />
                  <span class="hidden">Continue</span>
                </button>
              </>
            )}
            {isBusy && !isMaking ? null : (
              <Twice label="Delete this message and what follows on it" onSure={() => takeBack(said)} />
            )}
          </span>
        </footer>
      )}
    </article>
  );
});
