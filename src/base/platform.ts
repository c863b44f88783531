/** What insitu asks of the place it runs in. Node and browsers implement it in platform/; nothing here touches either. */

/** A gap between two reads of a file that is cheaper to read over than to ask again for. */
export const smallGap: number = 2 ** 20;

/** A file that can be read in pieces. */
export interface ReadableFile {
  readonly size: number;
  /** The same for two files that are one under different names, where the platform can tell. */
  readonly identity?: string | undefined;
  /** The same for two openings only where the bytes are the same; left out where nobody can tell. */
  readonly version?: string | undefined;
  /** True for one that is to be read once, from its start to its end: going back costs all of it again, or it is in memory as a whole. */
  readonly inOrder?: boolean | undefined;
  /** True for one that lies on this machine: reading costs little wherever it begins, and many reads may be under way at once. */
  readonly isNear?: boolean | undefined;
  /**
   * Fills `target` from `offset`; throws when the file is shorter. Reading goes on from there until `until`, where the caller knows: a file that comes
   * over the net asks for no more.
   */
  read(offset: number, target: Uint8Array, until?: number): Promise<void>;
  /** Opens the same file to be kept open; left out where nothing can be read without waiting. */
  lasting?(): LastingFile;
  close(): Promise<void>;
}

/** A file that stays open and is read at once, without waiting: for what is wanted a little at a time, long after the model was loaded. */
export interface LastingFile {
  /** Fills `target` from `offset`; throws when the file is shorter, or has changed since it was opened. */
  readNow(offset: number, target: Uint8Array): void;
  close(): void;
}

/** A thread that was started. */
export interface WorkerHandle {
  /** Sends structured data. The thread finds it when it has nothing else to do. */
  post(message: object): void;
  /**
   * False once the thread has ended, whatever ended it: no instruction of it will run any more. Also a caller may ask that has not been
   * back to its event loop since. Undefined, or left out, where nobody can tell.
   */
  isRunning?(): boolean | undefined;
  terminate(): Promise<void>;
}

/** Opens models and the weight files beside them. */
export interface Files {
  /** Opens a model by path or URL. */
  open(path: string): Promise<ReadableFile>;
  /** Opens the file `location`, relative to the model at `modelPath`; refuses everything outside the model's folder. */
  openBeside(modelPath: string, location: string): Promise<ReadableFile>;
}

/** What insitu needs of the place it runs in: files and threads. */
export interface Platform extends Files {
  /** Threads that the machine runs at once; 1 where memory cannot be shared with workers, and why. */
  readonly threads: { readonly count: number; readonly reason?: string };
  /** Bytes of memory that the machine can give this process in all; undefined where nobody tells. */
  readonly memoryBytes?: number | undefined;
  /** WebGPU's entry (a `GPU`), where the platform has it; a text says why not. */
  gpu?(): Promise<object | string>;
  /** Waits for a promise of `gpu`'s that costs something as long as it is waited for; left out where waiting is free. */
  awaitGpu?<T>(coming: Promise<T>): Promise<T>;
  /** Starts a thread that computes kernels; resolves once it is ready for work. `start` is structured data. */
  startKernelWorker(start: object): Promise<WorkerHandle>;
  /** Resolves once the thread has been back at its event loop, as soon as that can be. */
  breathe(): Promise<void>;
  /** Asks the engine for a feature that it may have but keeps switched off, by the engine's own name for it; what cannot be had stays off. */
  switchOn(feature: string): void;
}

/** A platform that can also tell which files there are: for models that come as folders. */
export interface FolderPlatform extends Platform {
  /** True if there is a file at a path or URL. */
  exists(path: string): Promise<boolean>;
  /** Why there is no file at a path or URL, as a sentence; left out where there is no more to say than that there is none. */
  whyAbsent?(path: string): Promise<string>;
  /** What is at a path, undefined where there is nothing; left out where nobody can tell. */
  kindOf?(path: string): Promise<"file" | "folder" | undefined>;
  /** The names of the folders in a folder; left out where nobody can tell. */
  foldersIn?(path: string): Promise<readonly string[]>;
}
