/** The page: conversations at one side, a panel at the other, the conversation between them. */
import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { attach } from "../state/attached.js";
import { changedCount } from "../state/settings.js";
import { announced, begin, current, host, making, panel, type Panel, stop } from "../state/talk.js";
import { backendText, bytesText } from "../words.js";
import { CachePanel } from "./cache.js";
import { Chat } from "./chat.js";
import { Debug } from "./debug.js";
import { History } from "./history.js";
import { Icon } from "./icon.js";

/** Where the page runs: the guide lies beside the static site alone. */
declare const HOST: "server" | "browser";

const isListOpen = signal(false);

/** Panels that come when they are opened first. */
const latePanels = {
  settings: signal<(() => VNode) | undefined>(undefined),
  models: signal<(() => VNode) | undefined>(undefined),
};

function LatePanel({ name }: { readonly name: "settings" | "models" }): VNode | null {
  const Shown = latePanels[name].value;
  useEffect(() => {
    if (latePanels[name].peek() !== undefined) return;
    if (name === "settings")
      void import("./settings.js").then((late) => (latePanels.settings.value = late.SettingsPanel));
    else void import("./models.js").then((late) => (latePanels.models.value = late.ModelsPanel));
  }, [name]);
  return Shown === undefined ? null : <Shown />;
}

const titles: Record<NonNullable<Panel>, string> = { cache: "The cache", settings: "Settings", models: "Models" };

function Side({ name, children }: { readonly name: NonNullable<Panel>; readonly children: ComponentChildren }): VNode {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [name]);
  return (
    <aside class="panel" aria-labelledby="panel-title">
      <header>
        <h2 id="panel-title" ref={heading} tabIndex={-1}>
          {titles[name]}
        </h2>
        <button type="button" aria-label="Close" title="Close (Escape)" onClick={() => close(name)}>
          <Icon name="close" />
        </button>
      </header>
      <div class="inside">{children}</div>
    </aside>
  );
}

function close(name: NonNullable<Panel>): void {
  panel.value = undefined;
  document.getElementById(`open-${name}`)?.focus();
}

const toggle = (name: NonNullable<Panel>): void => {
  panel.value = panel.value === name ? undefined : name;
};

function Opener({
  name,
  icon,
  children,
}: {
  readonly name: NonNullable<Panel>;
  readonly icon: "cache" | "settings";
  readonly children?: ComponentChildren;
}): VNode {
  return (
    <button
      id={`open-${name}`}
      type="button"
      aria-pressed={panel.value === name}
      title={titles[name]}
      onClick={() => toggle(name)}
    >
      <Icon name={icon} />
      <span class="wide-only">{name === "cache" ? "Cache" : "Settings"}</span>
      {children}
    </button>
  );
}

function ModelButton(): VNode {
  const { state, model } = host.value;
  const facts = model.value;
  const words =
    state.value.kind === "loading"
      ? `Loading ${state.value.what} …`
      : (facts?.name ?? (state.value.kind === "failed" ? "No model" : "Starting …"));
  return (
    <button
      id="open-models"
      type="button"
      class="model"
      aria-pressed={panel.value === "models"}
      title={words}
      onClick={() => toggle("models")}
    >
      <span class={`dot ${state.value.kind}`} />
      <span class="name">{words}</span>
      {facts?.backend === undefined ? null : <small class="wide-only">{backendText(facts.backend)}</small>}
    </button>
  );
}

/** What stands in the way of asking, above the conversation. */
function Notice(): VNode | null {
  const { state } = host.value;
  const now = state.value;
  if (now.kind === "loading" && now.total > 0)
    return (
      <div class="notice">
        <progress max={now.total} value={now.loaded} aria-label="Loading the model" />
        <span>
          {bytesText(now.loaded)} of {bytesText(now.total)}
        </span>
      </div>
    );
  if (now.kind !== "failed") return null;
  return (
    <div class="notice bad" role="alert">
      <span>{now.why}</span>
      {now.wayOut === "key" ? (
        <button
          type="button"
          onClick={() => {
            panel.value = "settings";
            requestAnimationFrame(() => document.getElementById("key")?.focus());
          }}
        >
          Enter a key
        </button>
      ) : null}
      {now.wayOut === "retry" ? (
        <button type="button" onClick={() => void host.value.start()}>
          Ask again
        </button>
      ) : null}
      {now.wayOut === "models" ? (
        <button type="button" onClick={() => (panel.value = "models")}>
          Choose a model
        </button>
      ) : null}
    </div>
  );
}

/** Files of models by their names: a folder may come as its files. */
const isOfModel = ({ name }: File): boolean => /\.(onnx|onnx_data|data)$/i.test(name);

/** A folder that is dropped anywhere is a model, where one can be loaded; text files go with the next message. */
async function drop(event: DragEvent): Promise<void> {
  const shelf = host.value.models;
  const item = event.dataTransfer?.items[0];
  event.preventDefault();
  if (item?.kind !== "file") return;
  const files = [...(event.dataTransfer?.files ?? [])];
  const isFolder = item.webkitGetAsEntry()?.isDirectory === true;
  const handle = await (
    item as { readonly getAsFileSystemHandle?: () => Promise<FileSystemHandle | null> }
  ).getAsFileSystemHandle?.();
  if (!isFolder && !files.some(isOfModel)) return attach(files);
  if (shelf === undefined) return;
  panel.value = "models";
  await shelf.load(shelf.addFolder(handle?.kind === "directory" ? (handle as FileSystemDirectoryHandle) : files));
}

function key(event: KeyboardEvent): void {
  if (event.key === "Escape" && !event.defaultPrevented) {
    if (making.value !== undefined) stop();
    else if (isListOpen.value) isListOpen.value = false;
    else if (panel.value !== undefined) close(panel.value);
  }
  if (event.key.toLowerCase() === "o" && event.shiftKey && (event.metaKey || event.ctrlKey)) {
    event.preventDefault();
    begin(current.value.mode);
    document.getElementById("say")?.focus();
  }
  if (event.key === "k" && (event.metaKey || event.ctrlKey)) {
    event.preventDefault();
    isListOpen.value = true;
    requestAnimationFrame(() => document.getElementById("search")?.focus());
  }
}

export function App(): VNode {
  useEffect(() => {
    const over = (event: DragEvent): void => event.preventDefault();
    const dropped = (event: DragEvent): void => void drop(event);
    addEventListener("keydown", key);
    addEventListener("dragover", over);
    addEventListener("drop", dropped);
    return () => {
      removeEventListener("keydown", key);
      removeEventListener("dragover", over);
      removeEventListener("drop", dropped);
    };
  }, []);
  const shown = panel.value;
  return (
    <div class={`app${shown === undefined ? "" : " with-panel"}${isListOpen.value ? " with-list" : ""}`}>
      <a class="skip" href="#say">
        Skip to the message
      </a>
      <header class="top">
        <button
          type="button"
          class="list-button"
          aria-label="Conversations"
          aria-expanded={isListOpen.value}
          onClick={() => (isListOpen.value = !isListOpen.value)}
        >
          <Icon name="menu" />
        </button>
        <h1>
          in<em>situ</em>
        </h1>
        <ModelButton />
        <span class="grow" />
        {HOST === "browser" ? (
          <a class="guide" href="./guide/index.html">
            Docs
          </a>
        ) : null}
        <Opener name="cache" icon="cache" />
        <Opener name="settings" icon="settings">
          {changedCount.value === 0 ? null : (
            <small class="tag" aria-label={`${changedCount.value} changed`}>
              {changedCount.value}
            </small>
          )}
        </Opener>
      </header>
      <div class="notices">
        <Notice />
      </div>
      <div class="columns">
        <div class="list">
          <History onClose={() => (isListOpen.value = false)} />
        </div>
        <Chat />
        {shown === undefined ? null : (
          <Side name={shown}>{shown === "cache" ? <CachePanel /> : <LatePanel key={shown} name={shown} />}</Side>
        )}
      </div>
      <div class="hidden" role="log" aria-live="polite">
        {announced.value}
      </div>
      {new URLSearchParams(location.search).has("debug") ? <Debug /> : null}
    </div>
  );
}
