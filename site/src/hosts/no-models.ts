/** Stands for the library's models where this build has none: nothing is kept. */
export const models = {
  catalogue: [] as readonly {
    readonly name: string;
    readonly title: string;
    readonly repository: string;
    readonly parameters: number;
    readonly chat: boolean;
    readonly thinking: boolean;
    readonly tools: boolean;
    readonly variants: readonly { readonly name: string; readonly bytes: number }[];
  }[],
  list: async (): Promise<readonly { readonly name: string; readonly bytes: number }[]> => [],
  remove: async (_: string): Promise<unknown> => [],
  persist: async (): Promise<boolean> => false,
  storage: async (): Promise<{
    readonly kind: string;
    readonly usedBytes: number;
    readonly freeBytes: number | undefined;
  }> => ({ kind: "none", usedBytes: 0, freeBytes: undefined }),
};
