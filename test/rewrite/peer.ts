// onnxruntime-node, where it is installed beside the project, and tensors handed over and taken back.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { Tensor } from "../../src/tensor/tensor.js";

const peers = fileURLToPath(new URL("../../peers/", import.meta.url));

export const installed: boolean = existsSync(`${peers}node_modules/onnxruntime-node`);

export interface PeerTensor {
  readonly type: string;
  readonly data: Tensor["data"];
  readonly dims: readonly number[];
}
export interface PeerSession {
  readonly inputNames: readonly string[];
  readonly inputMetadata: readonly {
    readonly name: string;
    readonly type: string;
    readonly shape: readonly (number | string)[];
  }[];
  run(feeds: Record<string, PeerTensor>): Promise<Record<string, PeerTensor>>;
  release(): Promise<void>;
}
interface Peer {
  readonly Tensor: new (type: string, data: Tensor["data"], dims: readonly number[]) => PeerTensor;
  readonly InferenceSession: { create(bytes: Uint8Array, options: object): Promise<PeerSession> };
}

const peer = installed ? (createRequire(peers)("onnxruntime-node") as Peer) : undefined;

export const openPeer = (bytes: Uint8Array, options: object = {}): Promise<PeerSession> =>
  peer!.InferenceSession.create(bytes, { logSeverityLevel: 3, intraOpNumThreads: 1, ...options });

export const handOver = ({ type, data, dims }: Tensor): PeerTensor => new peer!.Tensor(type, data, dims);

export const takeBack = ({ type, data, dims }: PeerTensor): Tensor =>
  new Tensor(type as "float32", data as Float32Array, dims);
