/** The settings: every one with what it does, the model's own value, and what is wrong with it. */
import type { VNode } from "preact";
import { apiKey, setKey } from "../state/key.js";
import {
  changedCount,
  numberFields,
  type NumberName,
  problems,
  reset,
  set,
  type SettingName,
  settings,
} from "../state/settings.js";
import { host } from "../state/talk.js";

const keys = [
  ["Ctrl K", "search conversations"],
  ["Ctrl Shift O", "new conversation"],
  ["Shift Enter", "a new line"],
  ["Escape", "stop, or close what is open"],
] as const;

function Problem({ name }: { readonly name: SettingName }): VNode | null {
  const problem = problems.value[name];
  return problem === undefined ? null : (
    <p class="note bad" id={`problem-${name}`}>
      {problem}
    </p>
  );
}

function NumberSetting({ name }: { readonly name: NumberName }): VNode {
  const { label, about, usual } = numberFields[name];
  const own = host.value.model.value?.defaults[name];
  return (
    <div class="setting">
      <label for={`setting-${name}`}>{label}</label>
      <input
        id={`setting-${name}`}
        inputMode="decimal"
        autocomplete="off"
        placeholder={own === undefined ? usual : String(own)}
        value={settings.value[name]}
        aria-invalid={problems.value[name] !== undefined}
        aria-describedby={`about-${name} problem-${name}`}
        onInput={({ currentTarget }) => set(name, currentTarget.value)}
      />
      <p class="note" id={`about-${name}`}>
        {about}
      </p>
      <Problem name={name} />
    </div>
  );
}

function TextSetting({
  name,
  label,
  about,
  rows,
  mono,
}: {
  readonly name: "system" | "stop" | "jsonSchema" | "tools";
  readonly label: string;
  readonly about: string;
  readonly rows: number;
  readonly mono?: boolean;
}): VNode {
  return (
    <div class="setting wide">
      <label for={`setting-${name}`}>{label}</label>
      <textarea
        id={`setting-${name}`}
        class={mono === true ? "mono" : ""}
        rows={rows}
        dir="auto"
        spellcheck={mono !== true}
        value={settings.value[name]}
        aria-invalid={problems.value[name] !== undefined}
        aria-describedby={`about-${name}`}
        onInput={({ currentTarget }) => set(name, currentTarget.value)}
      />
      <p class="note" id={`about-${name}`}>
        {about}
      </p>
      <Problem name={name} />
    </div>
  );
}

const numbers = Object.keys(numberFields) as NumberName[];

export function SettingsPanel(): VNode {
  return (
    <div class="settings">
      {host.value.kind === "server" ? (
        <div class="setting wide">
          <label for="key">API key</label>
          <input
            id="key"
            type="password"
            autocomplete="off"
            value={apiKey.value}
            onChange={({ currentTarget }) => {
              setKey(currentTarget.value);
              void host.value.start();
            }}
          />
          <p class="note">For this tab alone; leave it empty where the server asks for none.</p>
        </div>
      ) : null}
      <TextSetting
        name="system"
        label="System prompt"
        about="The system message: how the model should answer."
        rows={3}
      />
      <div class="grid">
        {numbers.map((name) => (
          <NumberSetting key={name} name={name} />
        ))}
      </div>
      <TextSetting name="stop" label="Stop" about="Texts that end the answer, one a line." rows={2} mono />
      <TextSetting
        name="jsonSchema"
        label="JSON schema"
        about="The answer is JSON that this schema allows, token by token, and nothing else."
        rows={4}
        mono
      />
      <TextSetting
        name="tools"
        label="Tools"
        about="Functions that the model may call, as a list in OpenAI’s form. Calls are shown, and not made."
        rows={3}
        mono
      />
      <div class="setting wide">
        <span class="label" id="theme-label">
          Colours
        </span>
        <div class="modes" role="radiogroup" aria-labelledby="theme-label">
          {(["auto", "light", "dark"] as const).map((theme) => (
            <label key={theme}>
              <input
                type="radio"
                name="theme"
                checked={settings.value.theme === theme}
                onChange={() => set("theme", theme)}
              />
              <span>{theme === "auto" ? "As the system" : theme === "light" ? "Light" : "Dark"}</span>
            </label>
          ))}
        </div>
      </div>
      <div class="setting wide">
        <span class="label">Keys</span>
        <dl class="facts note">
          {keys.map(([key, does]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
      </div>
      <div class="row">
        <button type="button" onClick={reset} disabled={changedCount.value === 0}>
          {changedCount.value === 0 ? "All are the model’s own" : `Reset ${changedCount.value} to the model’s own`}
        </button>
      </div>
    </div>
  );
}
