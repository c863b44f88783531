"""Exports tiny decoders of many architectures with random weights, and runs them in PyTorch for reference.

Usage: python3 export.py FOLDER
Needs torch, transformers and onnx. Each decoder gets its own process. Layout: FOLDER/NAME/model.onnx and, for each run and step,
FOLDER/NAME/stepN/*.pb (one prompt of six tokens, then one token at a time) and FOLDER/NAME/paddedN/*.pb (two prompts, left-padded).
Inputs: input_ids, attention_mask, position_ids, past_key_values.L.key/value; outputs: logits, present.L.key/value.
"""
import os, subprocess, sys, traceback

CONFIGS = {
    "qwen2": ("Qwen2Config", dict(num_key_value_heads=2)),
    "qwen3": ("Qwen3Config", dict(num_key_value_heads=2, head_dim=16)),
    "gemma": ("GemmaConfig", dict(num_key_value_heads=1, head_dim=16)),
    "gemma2": ("Gemma2Config", dict(num_key_value_heads=2, head_dim=16, sliding_window=8, query_pre_attn_scalar=16)),
    "gemma3": ("Gemma3TextConfig", dict(num_key_value_heads=2, head_dim=16, sliding_window=8, query_pre_attn_scalar=16, sliding_window_pattern=2)),
    "phi3": ("Phi3Config", dict(num_key_value_heads=2, pad_token_id=0)),
    "phi": ("PhiConfig", dict()),
    "gpt_neox": ("GPTNeoXConfig", dict()),
    "gptj": ("GPTJConfig", dict(n_embd=64, n_layer=2, n_head=4, rotary_dim=8, n_positions=64)),
    "opt": ("OPTConfig", dict(ffn_dim=96, word_embed_proj_dim=64)),
    "bloom": ("BloomConfig", dict(n_layer=2, n_head=4)),
    "falcon": ("FalconConfig", dict(new_decoder_architecture=True, num_kv_heads=4, num_ln_in_parallel_attn=2)),
    "olmo2": ("Olmo2Config", dict(num_key_value_heads=2)),
    "starcoder2": ("Starcoder2Config", dict(num_key_value_heads=2)),
    "stablelm": ("StableLmConfig", dict(num_key_value_heads=2)),
    "cohere": ("CohereConfig", dict(num_key_value_heads=2)),
    "granite": ("GraniteConfig", dict(num_key_value_heads=2)),
    "smollm3": ("SmolLM3Config", dict(num_key_value_heads=2)),
    "llama": ("LlamaConfig", dict(num_key_value_heads=2)),
    "gpt2": ("GPT2Config", dict(n_embd=64, n_layer=2, n_head=4, n_positions=64)),
    "gpt_oss": ("GptOssConfig", dict(num_key_value_heads=2, head_dim=16, sliding_window=8, num_local_experts=2, num_experts_per_tok=1)),
}
EAGER = {"gptj", "bloom", "gpt_oss"}
VARIANTS = {name: (18, "eager" if name in EAGER else "sdpa", True) for name in CONFIGS}
EXTRA = [("qwen2", 24, "sdpa", True), ("qwen3", 23, "sdpa", True), ("gemma2", 24, "eager", True), ("phi3", 24, "sdpa", True), ("olmo2", 21, "eager", True),
         ("llama", 17, "eager", False), ("qwen2", 17, "sdpa", False)]


def build(name, attention):
    import torch, transformers
    from transformers import AutoModelForCausalLM
    class_name, extra = CONFIGS[name]
    common = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
                  pad_token_id=0, bos_token_id=1, eos_token_id=2, attention_dropout=0.0)
    config = getattr(transformers, class_name)(**{**common, **extra})
    config._attn_implementation = attention
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2: parameter.normal_(0, 0.08)
    return model, config


def wrap(model, config):
    import torch
    from transformers import DynamicCache

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, position_ids, past):
            cache = DynamicCache()
            for layer in range(len(past) // 2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            arguments = dict(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
            if config.model_type not in ("bloom", "opt"):
                arguments["position_ids"] = position_ids
            out = self.model(**arguments)
            present = []
            for layer in out.past_key_values.layers:
                present += [layer.keys, layer.values]
            return (out.logits, *present)

    return Decoder()


def one(folder, name, opset, attention, dynamo):
    import numpy as np, torch, onnx
    from onnx import numpy_helper
    torch.set_grad_enabled(False)
    model, config = build(name, attention)
    layers = 2
    heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", None) or config.num_attention_heads
    if name in ("bloom", "gpt2", "gptj", "falcon"): heads = 4
    size = getattr(config, "head_dim", None) or (config.hidden_size // config.num_attention_heads)
    decoder = wrap(model, config)

    def run(ids, mask, positions, past):
        return decoder(ids, mask, positions, past)

    def empty(batch, length=0):
        return [torch.randn(batch, heads, length, size) * 0.5 for _ in range(2 * layers)]

    ids = torch.randint(3, 128, (2, 3)); past = empty(2, 5)
    mask = torch.ones(2, 8, dtype=torch.int64); positions = torch.arange(5, 8)[None].repeat(2, 1)
    names_in = ["input_ids", "attention_mask", "position_ids"] + [f"past_key_values.{i // 2}.{'key' if i % 2 == 0 else 'value'}" for i in range(2 * layers)]
    names_out = ["logits"] + [f"present.{i // 2}.{'key' if i % 2 == 0 else 'value'}" for i in range(2 * layers)]
    target = f"{folder}/{name}_op{opset}_{attention}{'' if dynamo else '_ts'}"
    os.makedirs(target, exist_ok=True)
    path = f"{target}/model.onnx"
    if dynamo:
        from torch.export import Dim
        batch, seq, old = Dim("batch", min=1, max=16), Dim("sequence", min=1, max=32), Dim("past", min=0, max=32)
        auto = Dim.DYNAMIC
        shapes = dict(input_ids={0: auto, 1: auto}, attention_mask={0: auto, 1: auto}, position_ids={0: auto, 1: auto}, past=[{0: auto, 2: auto} for _ in past])
        program = torch.onnx.export(decoder, (ids, mask, positions, past), dynamo=True, opset_version=opset, dynamic_shapes=shapes,
                                    input_names=names_in, output_names=names_out, external_data=False, verbose=False)
        program.save(path, external_data=False)
    else:
        axes = {n: {0: "batch", 1: "sequence"} for n in names_in[:3]}
        axes["attention_mask"] = {0: "batch", 1: "total"}
        for n in names_in[3:]: axes[n] = {0: "batch", 2: "past"}
        for n in names_out[1:]: axes[n] = {0: "batch", 2: "total"}
        axes["logits"] = {0: "batch", 1: "sequence"}
        torch.onnx.export(decoder, (ids, mask, positions, past), path, dynamo=False, opset_version=opset, input_names=names_in, output_names=names_out, dynamic_axes=axes)
    loaded = onnx.load(path)
    for node in loaded.graph.node:
        del node.metadata_props[:]
    onnx.save(loaded, path)

    def store(place, tensors):
        os.makedirs(place, exist_ok=True)
        for key, value in tensors.items():
            with open(f"{place}/{key}.pb", "wb") as file: file.write(numpy_helper.from_array(value.numpy()).SerializeToString())

    torch.manual_seed(11)
    for label, batch, pads in (("step", 1, [0]), ("padded", 2, [0, 4])):
        length = 6 if label == "step" else 9
        ids = torch.randint(3, 128, (batch, length))
        mask = torch.ones(batch, length, dtype=torch.int64)
        for row, pad in enumerate(pads): mask[row, :pad] = 0; ids[row, :pad] = 0
        past = empty(batch, 0)
        for step in range(6):
            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1]:]
            logits, *present = run(ids, mask, positions, past)
            # The positions of padding hold whatever the masked rows give; only the last position's logits are kept.
            store(f"{target}/{label}{step}", {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "logits": logits[:, -1:]})
            past = list(present)
            ids = logits[:, -1:].argmax(-1)
            mask = torch.cat([mask, torch.ones(batch, 1, dtype=torch.int64)], 1)
    # onnxruntime's own answer to the first step, as a check of the export.
    try:
        import onnxruntime as ort
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        feeds = {}
        for n in ("input_ids", "attention_mask", "position_ids"):
            feeds[n] = numpy_helper.to_array(onnx.load_tensor(f"{target}/step0/{n}.pb"))
        for i in range(2 * layers): feeds[names_in[3 + i]] = np.zeros((1, heads, 0, size), np.float32)
        feeds = {k: v for k, v in feeds.items() if k in {i.name for i in session.get_inputs()}}
        got = session.run(["logits"], feeds)[0][:, -1:]
        want = numpy_helper.to_array(onnx.load_tensor(f"{target}/step0/logits.pb"))
        print(f"{name} op{opset}: onnxruntime differs by {abs(got - want).max():.2e}", flush=True)
    except Exception as error:
        print(f"{name} op{opset}: onnxruntime: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    folder = sys.argv[1]
    if len(sys.argv) > 2:
        name, opset, attention, dynamo = sys.argv[2:6]
        try:
            one(folder, name, int(opset), attention, dynamo == "True")
            print(f"{name} op{opset} {attention}: exported", flush=True)
        except Exception as error:
            lines = traceback.format_exc().strip().splitlines()
            print(f"{name} op{opset} {attention}: FAILED: {str(error)[:300]} | {lines[-3:]}", flush=True)
        sys.exit(0)
    jobs = [(name, *variant) for name, variant in VARIANTS.items()] + EXTRA
    running = []
    for job in jobs:
        while len(running) >= 10:
            running = [p for p in running if p.poll() is None]
            if len(running) >= 10:
                import time; time.sleep(0.2)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        running.append(subprocess.Popen([sys.executable, __file__, folder, *map(str, job)], env=environment, stderr=subprocess.DEVNULL))
    for process in running: process.wait(timeout=400)
