/** Where one writes: the field, files that go with the message, the mode, and how full the context is. */
import { useComputed, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { attach, attached, attachProblem, longPaste, withAttached } from "../state/attached.js";
import { firstProblem } from "../state/settings.js";
import {
  begin,
  contextTokens,
  currentId,
  currentMode,
  drawn,
  host,
  isEmpty,
  making,
  panel,
  path,
  say,
  stop,
} from "../state/talk.js";
import { bytesText, countText, rateText } from "../words.js";
import { field, useFocusBack } from "./focus.js";
import { Icon } from "./icon.js";

function Attach(): VNode {
  const chosen = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class="round plain" title="Attach text files" onClick={() => chosen.current?.click()}>
        <Icon name="attach" />
        <span class="hidden">Attach text files</span>
      </button>
      <input
        ref={chosen}
        type="file"
        multiple
        hidden
        aria-label="Attach text files"
        onChange={({ currentTarget }) => {
          void attach([...(currentTarget.files ?? [])]);
          currentTarget.value = "";
        }}
      />
    </>
  );
}

/** The files that go with the next message. */
function Files(): VNode | null {
  if (attached.value.length === 0 && attachProblem.value === "") return null;
  return (
    <>
      <ul class="files" aria-label="Attached">
        {attached.value.map((file) => (
          <li key={file}>
            <span>{file.name}</span>
            <small>{bytesText(file.text.length)}</small>
            <button
              type="button"
              aria-label={`Take “${file.name}” away`}
              onClick={() => (attached.value = attached.value.filter((each) => each !== file))}
            >
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ul>
      {attachProblem.value === "" ? null : (
        <p class="note bad" role="alert">
          {attachProblem.value}
        </p>
      )}
    </>
  );
}

function Meter(): VNode | null {
  const context = host.value.model.value?.context;
  if (context === undefined) return null;
  const share = Math.min(1, contextTokens.value / context);
  const text = `${countText(contextTokens.value)} of ${countText(context)} tokens of context`;
  return (
    <div
      class={`meter${share > 0.85 ? " full" : ""}`}
      role="meter"
      aria-valuemin={0}
      aria-valuemax={context}
      aria-valuenow={contextTokens.value}
      aria-label="Context"
      aria-valuetext={text}
      title={text}
    >
      <span style={{ inlineSize: `${(5 * share).toFixed(2)}rem` }} />
      <small style={{ minInlineSize: `${2 * countText(context).length + 3}ch` }}>
        {countText(contextTokens.value)} / {countText(context)}
      </small>
    </div>
  );
}

function Stop(): VNode {
  const own = useRef<HTMLButtonElement>(null);
  useFocusBack(own, () => field);
  return (
    <button ref={own} type="button" class="round stop" onClick={stop} title="Stop (Escape)">
      <Icon name="stop" />
      <span class="hidden">Stop</span>
    </button>
  );
}

/** How fast the text in the making comes. It stands still: a number below the text would move with each line. */
function Rate(): VNode | null {
  const { stats } = drawn.value;
  if (making.value === undefined || stats === undefined || stats.tokensPerSecond === 0) return null;
  return <small class="rate">{rateText(stats.tokensPerSecond)}</small>;
}

export function Compose(): VNode {
  // What a link may bring along; it is not sent before somebody looked at it.
  const text = useSignal(new URLSearchParams(location.search).get("q") ?? "");
  const area = useRef<HTMLTextAreaElement>(null);
  const isRaw = currentMode.value === "raw";
  const isReady = useComputed(() => host.value.state.value.kind === "ready");
  const send = (): void => {
    if (making.value !== undefined || !isReady.value) return;
    const last = path.value.at(-1);
    // In a text an empty line goes on from where it ended.
    const files = isRaw ? [] : attached.value;
    if (text.value.trim() === "" && files.length === 0 && !(isRaw && last !== undefined)) return area.current?.focus();
    if (say(withAttached(files, text.value))) {
      text.value = "";
      attached.value = attached.value.filter((each) => !files.includes(each));
    }
    area.current?.focus();
  };
  useEffect(() => area.current?.focus({ preventScroll: true }), [currentId.value]);
  const problem = firstProblem.value;
  return (
    <form
      class="compose"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {problem !== undefined ? (
        <p class="note bad beside" role="alert">
          {problem.problem}{" "}
          <button type="button" class="link" onClick={() => (panel.value = "settings")}>
            Open settings
          </button>
        </p>
      ) : null}
      {isRaw ? null : <Files />}
      <div class="field">
        {isRaw ? null : <Attach />}
        <textarea
          ref={area}
          id="say"
          rows={1}
          dir="auto"
          aria-label={isRaw ? "How the text goes on" : "Message"}
          placeholder={
            isRaw ? (isEmpty.value ? "How does it begin?" : "Add something, or let the model go on") : "Say something"
          }
          value={text.value}
          onInput={({ currentTarget }) => (text.value = currentTarget.value)}
          onPaste={(event) => {
            const data = event.clipboardData;
            const pasted = data?.getData("text/plain") ?? "";
            if (isRaw || data === null || (data.files.length === 0 && pasted.length <= longPaste)) return;
            event.preventDefault();
            void attach(data.files.length > 0 ? data.files : [new File([pasted], "Pasted text")]);
          }}
          onKeyDown={(event) => {
            if (event.key === "Escape" && making.value !== undefined) return stop();
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            send();
          }}
        />
        {making.value !== undefined ? (
          <Stop key="stop" />
        ) : (
          <button key="send" type="submit" class="round" disabled={!isReady.value} title="Send (Enter)">
            <Icon name="send" />
            <span class="hidden">Send</span>
          </button>
        )}
      </div>
      <div class="under">
        <div class="modes" role="radiogroup" aria-label="Mode">
          {(["chat", "raw"] as const).map((mode) => (
            <label key={mode}>
              <input
                type="radio"
                name="mode"
                checked={currentMode.value === mode}
                onChange={() => mode !== currentMode.value && begin(mode)}
              />
              <span>{mode === "chat" ? "Chat" : "Continue a text"}</span>
            </label>
          ))}
        </div>
        <Rate />
        <Meter />
      </div>
    </form>
  );
}
