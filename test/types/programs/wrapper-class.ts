import { InferenceSession, Tensor, type TensorConstructor } from "onnxruntime-common";

export class Embedder {
  private constructor(
    private readonly session: InferenceSession,
    private readonly make: TensorConstructor,
  ) {}

  static async load(path: string, options?: InferenceSession.SessionOptions): Promise<Embedder> {
    return new Embedder(await InferenceSession.create(path, options), Tensor);
  }

  async embed(ids: number[]): Promise<Float32Array> {
    const input = new this.make(
      "int64",
      ids.map((id) => BigInt(id)),
      [1, ids.length],
    );
    const { last_hidden_state: hidden } = await this.session.run({ input_ids: input });
    if (!(hidden instanceof Tensor) || hidden.type !== "float32") throw new TypeError("float32 is asked for");
    return hidden.data as Float32Array;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.session.release();
  }
}
