/** Line drawings, 16 by 16, in the colour of the text around them. */
import type { VNode } from "preact";

const paths = {
  back: "M10 3 5 8l5 5",
  next: "m6 3 5 5-5 5",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  done: "m3 8.5 3.2 3L13 4.5",
  edit: "M3 13h3l7-7-3-3-7 7zM8.8 4.2l3 3",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3.2H9.8",
  more: "M3 8h9M8.5 4.5 12 8l-3.5 3.5",
  send: "M8 13V3M3.8 7.2 8 3l4.2 4.2",
  down: "M8 3v10M3.8 8.8 8 13l4.2-4.2",
  stop: "M4.5 4.5h7v7h-7z",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  add: "M8 3v10M3 8h10",
  close: "m4 4 8 8M12 4l-8 8",
  cache: "M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h4v4h-4z",
  settings: "M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M8.5 3v4M4.5 9v4",
  remove: "M3.5 4.5h9M6.5 4.5v-2h3v2M5 4.5l.6 9h4.8l.6-9",
  out: "M8 10V2.5M5 5.3l3-2.8 3 2.8M3 9v4.5h10V9",
  attach: "m12.5 7.5-5 5a2.8 2.8 0 0 1-4-4l5.3-5.3a1.9 1.9 0 0 1 2.7 2.7L6.3 11a.9.9 0 0 1-1.3-1.3l4.6-4.6",
  in: "M8 2.5V10M5 7.2 8 10l3-2.8M3 9v4.5h10V9",
} as const;

export const Icon = ({ name }: { readonly name: keyof typeof paths }): VNode => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path
      d={paths[name]}
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
    />
  </svg>
);
