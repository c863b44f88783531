"""Trains the embedded model: a small llama-style decoder on fairy tales, with its own byte-level BPE.

Usage: python3 train.py TEXT.txt.xz OUT_FOLDER [--minutes M]
Needs PyTorch with one GPU, and the package tokenizers. Writes tokenizer.json, config.json, report.json and the float16 weights as
weights-1.safetensors, weights-2.safetensors. Every fiftieth paragraph is held out; the checkpoint with the lowest held-out loss is kept.
"""
import argparse, json, lzma, math, os, time
import torch
import torch.nn.functional as F
from torch import nn

CONFIG = dict(vocab_size=4096, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2,
              head_dim=64, max_position_embeddings=1024, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
              bos_token_id=0, eos_token_id=0, model_type="llama")


def train_tokenizer(paragraphs, folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=CONFIG["vocab_size"], special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(paragraphs, trainer)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    return tokenizer


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, CONFIG["rms_norm_eps"])


def rotate(x, cos, sin):  # [batch, heads, length, size]: halves, as ONNX's RotaryEmbedding without interleaving
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Layer(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        h, kv, size = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"], CONFIG["head_dim"]
        d, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.input_norm, self.mlp_norm = RMSNorm(d), RMSNorm(d)
        self.q, self.k, self.v = nn.Linear(d, h * size, bias=False), nn.Linear(d, kv * size, bias=False), nn.Linear(d, kv * size, bias=False)
        self.o = nn.Linear(h * size, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False), nn.Linear(inner, d, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        h, kv, size = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"], CONFIG["head_dim"]
        y = self.input_norm(x)
        q = rotate(self.q(y).view(batch, length, h, size).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(batch, length, kv, size).transpose(1, 2), cos, sin)
        v = self.v(y).view(batch, length, kv, size).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.dropout(self.o(y.transpose(1, 2).reshape(batch, length, h * size)))
        y = self.mlp_norm(x)
        return x + self.dropout(self.down(F.silu(self.gate(y)) * self.up(y)))


class Decoder(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.embedding = nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = RMSNorm(CONFIG["hidden_size"])
        self.dropout = nn.Dropout(dropout)
        half = CONFIG["head_dim"] // 2
        angles = torch.arange(CONFIG["max_position_embeddings"])[:, None] * CONFIG["rope_theta"] ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * CONFIG["num_hidden_layers"]) if name.endswith(("o.weight", "down.weight")) else 1))

    def forward(self, ids):
        x = self.dropout(self.embedding(ids))
        cos, sin = self.cos[: ids.shape[1]].to(x.dtype), self.sin[: ids.shape[1]].to(x.dtype)
        for layer in self.layers: x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.embedding.weight)


def loss_of(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())


def held_out_loss(model, tokens, length):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        for start in range(0, len(tokens) - 1 - length, length * 32):
            rows = [tokens[at : at + length + 1] for at in range(start, min(start + length * 32, len(tokens) - 1 - length), length)]
            batch = torch.stack(rows)
            total += loss_of(model, batch).item() * batch.shape[0]
            count += batch.shape[0]
    model.train()
    return total / count


def sample(model, tokenizer, prompt, count, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    ids = torch.tensor([tokenizer.encode(prompt).ids], device="cuda")
    model.eval()
    with torch.no_grad():
        for _ in range(count):
            scores = model(ids[:, -512:])[0, -1].float() / 0.8
            top, index = scores.topk(40)
            ids = torch.cat([ids, index[torch.multinomial(top.softmax(-1), 1, generator=generator)][None]], 1)
    model.train()
    return tokenizer.decode(ids[0].tolist())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text"); parser.add_argument("out"); parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--dropout", type=float, default=0.1); parser.add_argument("--rate", type=float, default=2e-3)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    torch.manual_seed(1); torch.set_float32_matmul_precision("high")
    paragraphs = [line for line in lzma.open(options.text, "rt", encoding="utf8").read().split("\n") if line.strip()]
    # Held out in runs of ten paragraphs, so that most of each has its own context.
    held = [p for i, p in enumerate(paragraphs) if (i // 10) % 50 == 7]
    kept = [p for i, p in enumerate(paragraphs) if (i // 10) % 50 != 7]
    tokenizer = train_tokenizer(kept, options.out)
    encode = lambda lines: torch.tensor([t for e in tokenizer.encode_batch([line + "\n" for line in lines]) for t in e.ids], device="cuda")
    train, valid = encode(kept), encode(held)
    print(f"{len(kept)} paragraphs, {len(train)} tokens; {len(held)} held out, {len(valid)} tokens", flush=True)
    model = Decoder(options.dropout).cuda()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    compiled = torch.compile(model)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=options.rate, betas=(0.9, 0.95), fused=True)
    length, rows = 512, 64
    started, best, best_state, step = time.time(), math.inf, None, 0
    budget = options.minutes * 60
    log = []
    while True:
        progress = (time.time() - started) / budget
        if progress >= 1: break
        rate = options.rate * min(1, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1, progress))))
        for group in optimizer.param_groups: group["lr"] = rate
        starts = torch.randint(0, len(train) - length - 1, (rows,))
        batch = torch.stack([train[s : s + length + 1] for s in starts.tolist()])
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(compiled, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 500 == 0:
            valid_loss = held_out_loss(model, valid, length)
            log.append({"step": step, "train": round(loss.item(), 4), "heldOut": round(valid_loss, 4)})
            print(f"step {step} epoch {step * rows * length / len(train):.1f} train {loss.item():.4f} held out {valid_loss:.4f} rate {rate:.2e} {time.time() - started:.0f} s", flush=True)
            if valid_loss < best:
                best, best_state = valid_loss, {k: v.detach().clone() for k, v in model.state_dict().items()}
    final = held_out_loss(model, valid, length)
    if final < best: best, best_state = final, model.state_dict()
    model.load_state_dict(best_state)
    bytes_per_token = sum(len(line.encode()) + 1 for line in held) / len(valid)
    samples = [sample(model, tokenizer, prompt, 160, seed) for seed, prompt in enumerate(["Once upon a time there was", "The king said to the", "In a little house at the edge of the forest"])]
    for text in samples: print("---\n" + text, flush=True)
    report = dict(heldOutLoss=round(best, 4), bitsPerByte=round(best / math.log(2) / bytes_per_token, 4), steps=step, tokens=len(train), heldOutTokens=len(valid), minutes=options.minutes, log=log[-40:], samples=samples)
    json.dump(report, open(f"{options.out}/report.json", "w"), indent=1)
    json.dump(CONFIG, open(f"{options.out}/config.json", "w"), indent=1)
    from safetensors.torch import save_file
    state = {k: v.half().contiguous().cpu() for k, v in model.state_dict().items()}
    names = sorted(state)
    half = [n for n in names if n < "layers.3"]
    save_file({n: state[n] for n in half}, f"{options.out}/weights-1.safetensors")
    save_file({n: state[n] for n in names if n not in half}, f"{options.out}/weights-2.safetensors")
    print(f"held-out loss {best:.4f} nats a token, {best / math.log(2) / bytes_per_token:.4f} bits a byte", flush=True)


main()
