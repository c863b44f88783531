/** The models: what comes with the page, what the library knows by name, what is kept, and what a visitor brings. */
import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { ModelChoice, ModelShelf } from "../hosts/host.js";
import { host, making } from "../state/talk.js";
import { backendText, bytesText, countText } from "../words.js";
import { Icon } from "./icon.js";

function Choice({ shelf, choice }: { readonly shelf: ModelShelf; readonly choice: ModelChoice }): VNode {
  const isCurrent = shelf.current.value === choice.id && host.value.state.value.kind === "ready";
  const { title, about, bytes, tooLarge, isStored, isRemovable } = choice;
  return (
    <li class={isCurrent ? "current" : ""}>
      <div>
        <strong>{title}</strong>
        <p class="note">
          {about}
          {bytes === undefined ? "" : ` · ${bytesText(bytes)}`}
          {isStored ? " · kept" : ""}
        </p>
        {tooLarge === undefined ? null : <p class="note bad">{tooLarge}</p>}
      </div>
      <span class="row">
        {isRemovable ? (
          <button
            type="button"
            aria-label={`Remove ${title} from this browser`}
            title="Remove from this browser"
            onClick={() => void shelf.remove(choice.id)}
          >
            <Icon name="remove" />
          </button>
        ) : null}
        {isCurrent ? (
          <span class="tag">in use</span>
        ) : (
          <button type="button" onClick={() => void shelf.load(choice.id)}>
            {isStored ? "Use" : "Load"}
          </button>
        )}
      </span>
    </li>
  );
}

function Shelf({ shelf }: { readonly shelf: ModelShelf }): VNode {
  const name = useSignal("");
  const told = useSignal("");
  const folder = useRef<HTMLInputElement>(null);
  useEffect(() => void shelf.refresh(), [shelf]);
  const { state } = host.value;
  return (
    <>
      {state.value.kind === "loading" ? (
        <div class="boxed">
          <p>Loading {state.value.what} …</p>
          <progress max={state.value.total || 1} value={state.value.loaded} aria-label="Loading the model" />
          <div class="row">
            <span class="note">
              {state.value.total === 0 ? "" : `${bytesText(state.value.loaded)} of ${bytesText(state.value.total)}`}
            </span>
            <button type="button" onClick={() => shelf.stop()}>
              Stop
            </button>
          </div>
        </div>
      ) : null}
      {state.value.kind === "failed" ? (
        <p class="problem" role="alert">
          {state.value.why}
        </p>
      ) : null}
      <ul class="choices">
        {shelf.choices.value.map((choice) => (
          <Choice key={choice.id} shelf={shelf} choice={choice} />
        ))}
      </ul>
      <form
        class="setting wide"
        onSubmit={(event) => {
          event.preventDefault();
          if (name.value.trim() !== "") void shelf.load(shelf.addName(name.value.trim()));
        }}
      >
        <label for="hub-name">A name on the hub, or a URL</label>
        <div class="row">
          <input
            id="hub-name"
            class="grow"
            placeholder="onnx-community/Qwen3-0.6B-ONNX"
            autocomplete="off"
            spellcheck={false}
            value={name.value}
            onInput={({ currentTarget }) => (name.value = currentTarget.value)}
          />
          <button type="submit">Load</button>
        </div>
      </form>
      <div class="drop">
        <p>Drop a model’s folder anywhere on this page, or</p>
        <button type="button" onClick={() => folder.current?.click()}>
          choose a folder
        </button>
        <input
          ref={folder}
          type="file"
          hidden
          aria-label="A model's folder"
          {...{ webkitdirectory: true }}
          onChange={({ currentTarget }) => {
            const files = [...(currentTarget.files ?? [])];
            if (files.length > 0) void shelf.load(shelf.addFolder(files));
          }}
        />
      </div>
      <div class="setting wide">
        <span class="label" id="backend-label">
          Computed by
        </span>
        <div class="modes" role="radiogroup" aria-labelledby="backend-label">
          {(["auto", "wasm", "webgpu"] as const).map((backend) => (
            <label key={backend}>
              <input
                type="radio"
                name="backend"
                checked={shelf.backend.value === backend}
                disabled={backend === "webgpu" && !("gpu" in navigator)}
                onChange={() => {
                  shelf.backend.value = backend;
                  if (shelf.current.value !== undefined) void shelf.load(shelf.current.value);
                }}
              />
              <span>{backend === "auto" ? "Whichever is faster" : backend === "wasm" ? "WebAssembly" : "WebGPU"}</span>
            </label>
          ))}
        </div>
      </div>
      <p class="note">
        {shelf.storage.value}{" "}
        <button
          type="button"
          class="link"
          onClick={() =>
            void shelf
              .persist()
              .then(
                (kept) =>
                  (told.value = kept ? "The browser will keep them." : "The browser does not promise to keep them."),
              )
          }
        >
          Ask to keep them
        </button>{" "}
        {told.value}
      </p>
    </>
  );
}

/** The models of a server that has several. */
function Served(): VNode | null {
  const { served, model } = host.value;
  if (served === undefined || served.choices.value.length < 2) return null;
  return (
    <ul class="choices">
      {served.choices.value.map(({ id, about }) => (
        <li key={id} class={id === model.value?.name ? "current" : ""}>
          <div>
            <strong>{id}</strong>
            <p class="note">{about}</p>
          </div>
          {id === model.value?.name ? (
            <span class="tag">in use</span>
          ) : (
            <button type="button" aria-label={`Use ${id}`} onClick={() => void served.choose(id)}>
              Use
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

export function ModelsPanel(): VNode {
  const { models, model } = host.value;
  useEffect(() => {
    // What is loaded may have changed since the page was opened.
    if (host.peek().kind === "server" && making.peek() === undefined) void host.peek().start();
  }, []);
  const facts = model.value;
  return (
    <div class="models">
      <Served />
      {models === undefined ? (
        facts === undefined ? (
          <p class="note">No model answers.</p>
        ) : (
          <dl class="facts">
            <dt>Model</dt>
            <dd>{facts.name}</dd>
            <dt>Context</dt>
            <dd>{facts.context === undefined ? "told once it is loaded" : `${countText(facts.context)} tokens`}</dd>
            <dt>Computed by</dt>
            <dd>{facts.backend === undefined ? "the server" : backendText(facts.backend)}</dd>
            <dt>Chat template</dt>
            <dd>{facts.hasTemplate ? "its own" : "none: it continues texts"}</dd>
            <dt>For programs</dt>
            <dd>
              <a href="v1/models">API</a>, <a href="metrics">metrics</a>
            </dd>
          </dl>
        )
      ) : (
        <Shelf shelf={models} />
      )}
    </div>
  );
}
