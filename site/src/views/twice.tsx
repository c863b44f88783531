/** A button for what cannot be taken back: it is pressed twice. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "./icon.js";

export function Twice({ label, onSure }: { readonly label: string; readonly onSure: () => void }): VNode {
  const [isAsked, setAsked] = useState(false);
  return (
    <button
      type="button"
      class={isAsked ? "sure" : ""}
      aria-label={isAsked ? `${label}: press again` : label}
      title={isAsked ? "Press again" : label}
      onBlur={() => setAsked(false)}
      onPointerLeave={() => setAsked(false)}
      onClick={() => {
        if (isAsked) onSure();
        setAsked(!isAsked);
      }}
    >
      <Icon name="remove" />
      {isAsked ? <span>Sure?</span> : null}
    </button>
  );
}
