/** What insitu asks of the place it runs in. Node and browsers implement it in platform/; nothing here touches either. */

/** A file that can be read in pieces. */
export interface ReadableFile {
  readonly size: number;
  /** Fills `target` from `offset`; throws when the file is shorter. */
  read(offset: number, target: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

/** Opens models and the weight files beside them. */
export interface Platform {
  /** Opens a model by path or URL. */
  open(path: string): Promise<ReadableFile>;
  /** Opens the file `location`, relative to the model at `modelPath`; refuses everything outside the model's folder. */
  openBeside(modelPath: string, location: string): Promise<ReadableFile>;
}
