"""Trains a draft for the embedded model's speculative decoding: one small layer that learns what the model itself expects after each token.

Usage: python3 draft.py WORK_FOLDER OUT_FOLDER [--minutes M]
WORK_FOLDER is what draft-data.mjs wrote. Runs on one thread of a processor, with PyTorch 1.13 or later and NumPy alone. Writes the weights as
raw float32 files (NAME.f32) with shapes.json and config.json, for draft-export.mjs.
"""
import argparse, json, math, os, time
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

TARGET = dict(vocab_size=4096, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2, head_dim=64)
DRAFT = {**TARGET, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 1}
WINDOW, ROWS = 128, 8


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = h, kv, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
        d, inner = config["hidden_size"], config["intermediate_size"]
        self.input_norm, self.mlp_norm = RMSNorm(d), RMSNorm(d)
        self.q, self.k, self.v = nn.Linear(d, h * size, bias=False), nn.Linear(d, kv * size, bias=False), nn.Linear(d, kv * size, bias=False)
        self.o = nn.Linear(h * size, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False), nn.Linear(inner, d, bias=False)

    def forward(self, x, cos, sin, mask):
        (batch, length, _), (h, kv, size) = x.shape, self.heads
        y = self.input_norm(x)
        q = rotate(self.q(y).view(batch, length, h, size).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(batch, length, kv, size).transpose(1, 2), cos, sin).repeat_interleave(h // kv, 1)
        v = self.v(y).view(batch, length, kv, size).transpose(1, 2).repeat_interleave(h // kv, 1)
        y = (q @ k.transpose(-1, -2) / math.sqrt(size) + mask).softmax(-1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, h * size))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"])
        half = config["head_dim"] // 2
        angles = torch.arange(WINDOW)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.mask = torch.full((WINDOW, WINDOW), -math.inf).triu(1)
        for weight in self.parameters():
            if weight.dim() == 2: nn.init.normal_(weight, std=0.02)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers: x = layer(x, self.cos, self.sin, self.mask)
        return F.linear(self.norm(x), self.embedding.weight)


def target_of(work):
    shapes = json.load(open(f"{work}/shapes.json"))
    model = Decoder(TARGET)
    state = {name: torch.from_numpy(np.fromfile(f"{work}/{name}.f32", dtype=np.float32).reshape(shape)) for name, shape in shapes.items()}
    model.load_state_dict(state)
    return model.eval()


def draft_of(target):
    """A draft whose embedding is the target's, in the directions in which that varies most."""
    draft = Decoder(DRAFT)
    table = target.embedding.weight.detach() * target.norm.weight.detach()
    _, _, directions = torch.linalg.svd(table, full_matrices=False)
    draft.embedding.weight.data = table @ directions[: DRAFT["hidden_size"]].T
    return draft


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work"); parser.add_argument("out"); parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--rate", type=float, default=3e-3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    tokens = torch.from_numpy(np.fromfile(f"{options.work}/tokens.i32", dtype=np.int32).astype(np.int64))
    held, tokens = tokens[-40 * WINDOW :], tokens[: -40 * WINDOW]
    target = target_of(options.work)
    draft = draft_of(target)
    print(f"{sum(p.numel() for p in draft.parameters()) / 1e6:.2f} M parameters, {len(tokens)} tokens", flush=True)
    optimizer = torch.optim.AdamW(draft.parameters(), lr=options.rate, betas=(0.9, 0.95), weight_decay=0.01)
    started, step = time.time(), 0

    def check():
        rows = held.view(-1, WINDOW)
        with torch.no_grad():
            wanted, given = target(rows), draft(rows)
            first = (wanted.argmax(-1) == given.argmax(-1)).float().mean().item()
            both = torch.minimum((wanted / 0.8).softmax(-1), (given / 0.8).softmax(-1)).sum(-1).mean().item()
        print(f"step {step}, {time.time() - started:.0f} s: likeliest token agrees {first:.3f}, samples may agree {both:.3f}", flush=True)

    while (progress := (time.time() - started) / (60 * options.minutes)) < 1:
        rate = options.rate * min(1, (step + 1) / 50) * (0.02 + 0.49 * (1 + math.cos(math.pi * progress)))
        for group in optimizer.param_groups: group["lr"] = rate
        starts = torch.randint(0, len(tokens) - WINDOW, (ROWS,)).tolist()
        ids = torch.stack([tokens[s : s + WINDOW] for s in starts])
        with torch.no_grad(): expected = target(ids).softmax(-1)
        loss = -(expected * draft(ids).log_softmax(-1)).sum(-1).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 20 == 0: print(f"step {step}, {time.time() - started:.0f} s, loss {loss.item():.3f}", flush=True)
        if step % 200 == 0: check()
    check()
    os.makedirs(options.out, exist_ok=True)
    state = draft.state_dict()
    for name, weight in state.items(): weight.numpy().astype(np.float32).tofile(f"{options.out}/{name}.f32")
    json.dump({name: list(weight.shape) for name, weight in state.items()}, open(f"{options.out}/shapes.json", "w"))
    config = {**DRAFT, "max_position_embeddings": 512, "rope_theta": 10000, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "eos_token_id": 0, "model_type": "llama"}
    json.dump(config, open(f"{options.out}/config.json", "w"), indent=2)


main()
