// What trials did, in numbers: quoted where a soak is claimed.

/** What was done, in numbers. */
export class Counts {
  graphs = 0;
  /** Runs with a state, and without one. */
  runs = 0;
  functionalRuns = 0;
  /** Verdicts on cache updates, one for each graph. */
  inPlace = 0;
  copied = 0;
  /** Sessions that "require" loaded and refused. */
  required = 0;
  requireRefused = 0;
  /** Graphs whose pairs were named. */
  named = 0;
  forks = 0;
  rewinds = 0;
  restores = 0;
  /** Tensors that results were written into, and those among them that lie in a feed's memory or a cache's. */
  targets = 0;
  overlapping = 0;
  /** Graphs and runs that onnxruntime answered. */
  peerGraphs = 0;
  peerRuns = 0;
  /** Why onnxruntime did not answer, and how often. */
  readonly peerRefusals = new Map<string, number>();

  /** Everything on one line. */
  get text(): string {
    const refusals = Object.fromEntries([...this.peerRefusals].sort((a, b) => b[1] - a[1]));
    return JSON.stringify({ ...Object.fromEntries(Object.entries(this)), peerRefusals: refusals });
  }

  /** Counts a model or a run that onnxruntime does not serve. */
  refused(error: unknown): void {
    const reason = String(error)
      .replace(/'[^']*'|"[^"]*"|\d+/g, "…")
      .slice(0, 120);
    this.peerRefusals.set(reason, (this.peerRefusals.get(reason) ?? 0) + 1);
  }
}
