/** Long texts in windows, one after the other split and made tokens: where the pattern that splits them says that cutting changes nothing. */
import { BoundedPattern } from "../patterns/bounded-pattern.js";

/** Characters of a text that are split at a time, where it can be cut. */
const windowLength = 8_192;

/** A text in parts whose splits are those of the whole. */
export function* windowsOf(text: string, splits: BoundedPattern | undefined): Generator<string, void> {
  let from = 0;
  for (let at = windowLength; splits !== undefined && at < text.length; at++) {
    const code = text.charCodeAt(at);
    // Most texts have these, and to look for others would take longer than it saves.
    if (code !== 0x20 && code !== 0x0a) continue;
    const before = text.charCodeAt(at - 1);
    if ((before >= 0xd800 && before <= 0xdfff) || !splits.cutsBetween(before, code)) continue;
    yield text.slice(from, at);
    from = at;
    at += windowLength;
  }
  yield text.slice(from);
}

/** What tokenizer.json says of a part that splits texts. */
interface SplitterConfig {
  readonly type?: string;
  readonly add_prefix_space?: boolean;
  readonly use_regex?: boolean;
}

/** The kinds of parts that split a text by their pattern and do nothing to it before. */
const splitters: Readonly<Record<string, (config: SplitterConfig) => boolean>> = {
  Split: () => true,
  ByteLevel: ({ add_prefix_space, use_regex }) => add_prefix_space !== true && use_regex !== false,
};

/** The pattern that a text is split by before anything else is done with it. */
export function firstPattern(part: object | null): BoundedPattern | undefined {
  if (part === null) return undefined;
  const { tokenizers, pattern, config } = part as {
    readonly tokenizers?: readonly object[];
    readonly pattern?: unknown;
    readonly config?: SplitterConfig;
  };
  if (tokenizers !== undefined) return firstPattern(tokenizers[0] ?? null);
  const splits = config?.type !== undefined && splitters[config.type]?.(config) === true;
  return splits && pattern instanceof BoundedPattern ? pattern : undefined;
}
