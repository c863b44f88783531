"""Trains the embedded model: a small llama-style decoder on fairy tales, taught by larger ones that read the same text.

Usage: python3 train.py teachers TEXT.txt.xz WORK_FOLDER [--count N] [--minutes M]
       python3 train.py student  TEXT.txt.xz WORK_FOLDER OUT_FOLDER [--minutes M] [--tokenizer tokenizer.json]
Needs PyTorch with one GPU of 140 GB (less with --shifts 1), and the package tokenizers. The student learns each token from what its teachers expect together there,
and from the token itself. Writes tokenizer.json, config.json, report.json and the float16 weights as weights-1.safetensors,
weights-2.safetensors, and held-out.json for held-out.mjs. Of every fifty runs of ten paragraphs one is held out; the checkpoint with the lowest held-out loss is kept.
"""
import argparse, glob, hashlib, json, lzma, math, os, re, time
import torch
import torch.nn.functional as F
from torch import nn

STUDENT = dict(vocab_size=4096, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2,
               head_dim=64, max_position_embeddings=512, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True, eos_token_id=0,
               model_type="llama")
TEACHER = {**STUDENT, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8}
WINDOW, ROWS = 512, 64


def read_tales(path):
    """The paragraphs that are learnt and those held out: lists of lines, where None stands for the end of a tale.

    What is no tale is left out: a book's name and what stands before its first long paragraph, prefaces, and the notes at a book's end.
    """
    text = lzma.open(path, "rt", encoding="utf8").read()
    print("SHA-256 of the text:", hashlib.sha256(text.encode()).hexdigest(), flush=True)
    lines = [line for line in text.split("\n") if line.strip()]
    books = [index for index, line in enumerate(lines) if line.startswith("<|book|>")] + [len(lines)]
    kept, held = [], []
    for start, end in zip(books, books[1:]):
        notes = [index for index in range(start, end) if re.match(r"notes and references\W*$", lines[index], re.I)]
        before_tales = True
        for index in range(start + 1, max(notes, default=end)):
            line = lines[index]
            heading = len(line) < 90 and (line.isupper() or not re.search(r"[.!?,;:\"'\])-]$", line))
            if re.match(r"(preface|contents|introduction)\W*$", line, re.I): before_tales = True
            elif not heading and len(line) > 200 and before_tales: before_tales = "reface" in lines[index - 1]
            if before_tales or not re.search("[a-z]", line.lower()) or re.match(r"\[?\d+\]", line): continue
            # Runs of ten paragraphs, so that most of what is held out has its own context.
            (held if (index // 10) % 50 == 7 else kept).append(None if heading else line)
    return kept, held


def train_tokenizer(paragraphs):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=STUDENT["vocab_size"], special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((line for line in paragraphs if line), trainer)
    return tokenizer


def encoded(tokenizer, paragraphs):
    """One row of token ids on the device; tales are parted by the end token, which stands once between two of them."""
    ids = [0]
    for line in paragraphs:
        if line is not None: ids += tokenizer.encode(line + "\n").ids
        elif ids[-1] != 0: ids.append(0)
    return torch.tensor(ids, device="cuda")


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, STUDENT["rms_norm_eps"])


def rotate(x, cos, sin):  # [batch, heads, length, size]: halves, as ONNX's RotaryEmbedding without interleaving
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Layer(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.heads = h, kv, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
        d, inner = config["hidden_size"], config["intermediate_size"]
        self.input_norm, self.mlp_norm = RMSNorm(d), RMSNorm(d)
        self.q, self.k, self.v = nn.Linear(d, h * size, bias=False), nn.Linear(d, kv * size, bias=False), nn.Linear(d, kv * size, bias=False)
        self.o = nn.Linear(h * size, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False), nn.Linear(inner, d, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, cos, sin):
        (batch, length, _), (h, kv, size) = x.shape, self.heads
        y = self.input_norm(x)
        q = rotate(self.q(y).view(batch, length, h, size).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(batch, length, kv, size).transpose(1, 2), cos, sin)
        v = self.v(y).view(batch, length, kv, size).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.dropout(self.o(y.transpose(1, 2).reshape(batch, length, h * size)))
        y = self.mlp_norm(x)
        return x + self.dropout(self.down(F.silu(self.gate(y)) * self.up(y)))


class Decoder(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.embedding = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"])
        self.dropout = nn.Dropout(dropout)
        half = config["head_dim"] // 2
        angles = torch.arange(config["max_position_embeddings"])[:, None] * config["rope_theta"] ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * config["num_hidden_layers"]) if name.endswith(("o.weight", "down.weight")) else 1))

    def forward(self, ids):
        x = self.dropout(self.embedding(ids))
        cos, sin = self.cos[: ids.shape[1]].to(x.dtype), self.sin[: ids.shape[1]].to(x.dtype)
        for layer in self.layers: x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.embedding.weight)


def loss_of(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())


def windows(tokens, offset):
    """The text from an offset on as rows of a window and the token after it; each begins with the last token of the one before."""
    count = (len(tokens) - 1 - offset) // WINDOW
    return tokens[offset : offset + count * WINDOW + 1].unfold(0, WINDOW + 1, WINDOW)


def held_out_loss(model, valid):
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        losses = [loss_of(model, rows).item() * len(rows) for rows in windows(valid, 0).split(32)]
    model.train()
    return sum(losses) / len(windows(valid, 0))


def fit(name, model, valid, loss_at, minutes, top_rate):
    """Trains until the time is over, and leaves the model with the weights of its lowest held-out loss, which is returned with the steps."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=top_rate, betas=(0.9, 0.95), fused=True)
    best, best_state, step, started = math.inf, None, 0, None

    def check():
        nonlocal best, best_state
        now = held_out_loss(model, valid)
        print(f"{name}: step {step}, loss {loss.item():.4f}, held out {now:.4f}, {time.time() - started:.0f} s", flush=True)
        if now < best: best, best_state = now, {k: v.detach().clone() for k, v in model.state_dict().items()}

    while True:
        progress = 0 if started is None else (time.time() - started) / (minutes * 60)
        if progress >= 1: break
        rate = top_rate * min(1, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        for group in optimizer.param_groups: group["lr"] = rate
        with torch.autocast("cuda", torch.bfloat16): loss = loss_at()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if started is None: started = (torch.cuda.synchronize(), time.time())[1]  # what compiling takes is not counted
        step += 1
        if step % 500 == 0: check()
    check()
    model.load_state_dict(best_state)
    return best, step


def train_teachers(options, train, valid):
    for seed in range(options.count):
        torch.manual_seed(seed + 1)
        model = Decoder(TEACHER, options.dropout).cuda()
        if seed == 0: print(f"a teacher has {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters", flush=True)
        compiled = torch.compile(model)

        def loss_at():
            starts = torch.randint(0, len(train) - WINDOW - 1, (ROWS,)).tolist()
            return loss_of(compiled, torch.stack([train[s : s + WINDOW + 1] for s in starts]))

        best, _ = fit(f"teacher {seed + 1}", model, valid, loss_at, options.minutes, options.rate)
        torch.save(model.state_dict(), f"{options.work}/teacher-{seed + 1}.pt")
        print(f"teacher {seed + 1}: {best:.4f}", flush=True)


def expectations(options, rows):
    """What the teachers expect together after each token of each row, as float16 probabilities."""
    paths = sorted(glob.glob(f"{options.work}/teacher-*.pt"))
    if not paths: raise SystemExit(f"no teacher-*.pt in {options.work}: run `train.py teachers` first")
    together = torch.zeros(len(rows), WINDOW, STUDENT["vocab_size"], dtype=torch.float16, device="cuda")
    for path in paths:
        model = Decoder(TEACHER, 0.0).cuda()
        model.load_state_dict(torch.load(path))
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for start in range(0, len(rows), 32):
                together[start : start + 32] += model(rows[start : start + 32, :-1]).float().softmax(-1).half() / len(paths)
    return together


def train_student(options, train, valid):
    torch.manual_seed(1)
    rows = torch.cat([windows(train, offset) for offset in range(0, WINDOW, WINDOW // options.shifts)])
    targets = expectations(options, rows)
    held = windows(valid, 0)
    taught = expectations(options, held).gather(-1, held[:, 1:, None]).float().clamp(min=1e-7).log().mean().neg().item()
    print(f"{len(rows)} windows with what the teachers expect; together they lose {taught:.4f} on the held-out text", flush=True)
    model = Decoder(STUDENT, options.dropout).cuda()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    compiled = torch.compile(model)

    @torch.compile
    def taught_loss(scores, expected, ids):
        expectation = scores.float().log_softmax(-1)
        soft = -(expected.float() * expectation).sum(-1).mean()
        return options.taught * soft + (1 - options.taught) * -expectation.gather(-1, ids[..., None]).mean()

    def loss_at():
        chosen = torch.randint(0, len(rows), (ROWS,), device="cuda")
        return taught_loss(compiled(rows[chosen, :-1]), targets[chosen], rows[chosen, 1:])

    best, steps = fit("student", model, valid, loss_at, options.minutes, options.rate)
    return model, best, steps, taught


def sample(model, tokenizer, prompt, count, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    ids = torch.tensor([tokenizer.encode(prompt).ids], device="cuda")
    model.eval()
    with torch.no_grad():
        for _ in range(count):
            scores = model(ids[:, -WINDOW:])[0, -1].float() / 0.8
            top, index = scores.topk(40)
            ids = torch.cat([ids, index[torch.multinomial(top.softmax(-1), 1, generator=generator)][None]], 1)
    return tokenizer.decode(ids[0].tolist())


def write_student(options, tokenizer, model, held, report):
    from safetensors.torch import save_file
    os.makedirs(options.out, exist_ok=True)
    tokenizer.save(f"{options.out}/tokenizer.json")
    json.dump(report, open(f"{options.out}/report.json", "w"), indent=1)
    json.dump(held, open(f"{options.out}/held-out.json", "w"))
    json.dump(STUDENT, open(f"{options.out}/config.json", "w"), indent=1)
    state = {k: v.half().contiguous().cpu() for k, v in model.state_dict().items()}
    first = [name for name in sorted(state) if name < "layers.3"]
    save_file({n: state[n] for n in first}, f"{options.out}/weights-1.safetensors")
    save_file({n: state[n] for n in state if n not in first}, f"{options.out}/weights-2.safetensors")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    teachers, student = commands.add_parser("teachers"), commands.add_parser("student")
    for each in (teachers, student): each.add_argument("text"); each.add_argument("work"); each.add_argument("--tokenizer")
    teachers.add_argument("--count", type=int, default=5); teachers.add_argument("--minutes", type=float, default=0.8)
    teachers.add_argument("--dropout", type=float, default=0.25); teachers.add_argument("--rate", type=float, default=1.5e-3)
    student.add_argument("out"); student.add_argument("--minutes", type=float, default=0.8)
    student.add_argument("--dropout", type=float, default=0.05); student.add_argument("--rate", type=float, default=2e-3)
    student.add_argument("--taught", type=float, default=0.9); student.add_argument("--shifts", type=int, default=4)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    kept, held = read_tales(options.text)
    if options.tokenizer:
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(options.tokenizer)
    else: tokenizer = train_tokenizer(kept)
    train, valid = encoded(tokenizer, kept), encoded(tokenizer, held)
    print(f"{len(train)} tokens to learn, {len(valid)} held out", flush=True)
    if options.command == "teachers": return train_teachers(options, train, valid)
    model, best, steps, taught = train_student(options, train, valid)
    bytes_per_token = sum(len(line.encode()) + 1 for line in held if line) / len(valid)
    prompts = ["Once upon a time there was", "The king said to the", "In a little house at the edge of the forest"]
    samples = [sample(model, tokenizer, prompt, 160, seed) for seed, prompt in enumerate(prompts)]
    for text in samples: print("---\n" + text, flush=True)
    bits = best / math.log(2) / bytes_per_token
    print(f"held-out loss {best:.4f} nats a token, {bits:.4f} bits a byte", flush=True)
    report = dict(heldOutLoss=round(best, 4), bitsPerByte=round(bits, 4), teachersTogether=round(taught, 4), steps=steps, tokens=len(train), heldOutTokens=len(valid), samples=samples)
    write_student(options, tokenizer, model, held, report)


main()
