"""Random cases of onnxruntime's com.microsoft operators, answered by onnxruntime's CPU provider.

Usage: python3 contrib.py OUT.tar.gz     (needs onnx, onnxruntime 1.30, numpy; under three minutes)
The archive holds contrib/CASE/ in ONNX's backend-test layout: model.onnx, meta.json, test_data_set_0/*.pb.
"""
import os, sys
import numpy as np

from corpus import Corpus, chance, pick, real

F32, F16 = np.float32, np.float16
FLOAT_CODE = {F32: 1, F16: 10}
MS = dict(domain="com.microsoft", opset=21, twice=True)
corpus = Corpus("contrib", 20261115)


def tolerance(dtype, single=1e-4, half=4e-3):
    value = single if dtype == F32 else half
    return dict(rtol=value, atol=value)


# ---- GroupQueryAttention ------------------------------------------------------------------------------------------------
def window_end(past, capacity, gap):
    """Where the resident rows of a sliding-window cache end after `past` tokens."""
    if past <= capacity:
        return past
    return past - gap * ((past - capacity + gap - 1) // gap)


def group_query_attention(rng, index):
    dtype = pick(rng, [F32, F32, F16])
    batch = pick(rng, [1, 1, 2, 3])
    kv_heads = pick(rng, [1, 2])
    heads = kv_heads * pick(rng, [1, 2, 3])
    mode = ["prompt", "decode", "decode", "chunk", "shared", "ragged", "window", "quantized"][index % 8]
    rotary = chance(rng, 0.45)
    head = pick(rng, [16, 32]) if rotary else pick(rng, [8, 16, 24])
    attrs = dict(num_heads=heads, kv_num_heads=kv_heads)
    packed = mode != "shared" and chance(rng, 0.25)
    has_past = mode != "prompt" or chance(rng, 0.3)
    quantized = mode == "quantized" or (mode in ("window", "decode") and chance(rng, 0.15))
    if quantized and mode == "window":
        head = 32

    if mode == "prompt" or mode == "ragged":
        length = int(rng.integers(1, 7))
        if mode == "ragged":
            has_past = chance(rng, 0.5)
            batch = pick(rng, [2, 3])
            length = int(rng.integers(2, 7))
        total = length
        lengths = np.full(batch, total)
        if mode == "ragged":
            lengths = rng.integers(1, total + 1, size=batch)
            lengths[int(rng.integers(batch))] = total
    elif mode in ("decode", "quantized") and chance(rng, 0.85):
        length = 1
        total = int(rng.integers(2, 9))
        lengths = np.full(batch, total)
        if chance(rng, 0.5):
            lengths = rng.integers(1, total + 1, size=batch)
            lengths[int(rng.integers(batch))] = total
    elif mode == "shared":
        total = int(rng.integers(2, 8))
        length = 1 if chance(rng, 0.5) else (total if batch > 1 or chance(rng, 0.4) else int(rng.integers(1, total + 1)))
        lengths = np.full(batch, total)
    else:  # chunk and window: several new tokens after a past, one sample
        batch = 1 if mode != "window" else batch
        length = int(rng.integers(2, 5)) if mode != "window" or (batch == 1 and chance(rng, 0.4)) else 1
        total = length + int(rng.integers(1, 9 if mode == "window" else 6))
        lengths = np.full(batch, total)
    new = 0 if mode == "shared" else length
    prompt = length == total
    # Rows that the past holds for each sample; in a prompt the past is ignored.
    valid = lengths if mode == "shared" else (np.zeros(batch, int) if prompt else lengths - length)

    window = None
    if mode == "window":
        window = int(rng.integers(1, 6))
        capacity = window + int(rng.integers(0, 4))
        gap = capacity - window + 1
        attrs.update(local_window_size=window, sliding_window_cache=1)
        past_rows = capacity
        valid = np.array([window_end(int(p), capacity, gap) for p in lengths - length])
    elif mode == "shared":
        past_rows = total + int(rng.integers(0, 4))
    elif chance(rng, 0.5):
        past_rows = total + int(rng.integers(0, 4))  # a buffer with room for the new rows
    else:
        past_rows = total - length  # a past that grows
    if not has_past:
        past_rows = None

    if rotary:
        attrs.update(do_rotary=1, rotary_interleaved=pick(rng, [None, 0, 1]))
    if chance(rng, 0.3):
        attrs["scale"] = float(pick(rng, [0.125, 0.5, 1.0]))
    if chance(rng, 0.25):
        attrs["softcap"] = float(pick(rng, [1.0, 5.0, 30.0]))
    if chance(rng, 0.2):
        attrs["smooth_softmax"] = 1
    if mode not in ("window", "ragged") and chance(rng, 0.3):
        attrs["local_window_size"] = int(rng.integers(1, total + 2))
    elif mode != "window" and chance(rng, 0.15):
        attrs["causal"] = 0
    even = bool((lengths == total).all())
    query_key = mode != "window" and even and chance(rng, 0.3)
    if query_key:
        attrs["qk_output"] = pick(rng, [1, 2])

    hidden, kv_hidden = heads * head, kv_heads * head
    query = real(rng, (batch, length, hidden + (2 * kv_hidden if packed else 0)), dtype)
    key = None if packed else real(rng, (batch, new, kv_hidden), dtype)
    value = None if packed else real(rng, (batch, new, kv_hidden), dtype)
    past_key = past_value = k_scale = v_scale = None
    cache_code = FLOAT_CODE[dtype]
    if quantized:
        bits = pick(rng, [8, 4])
        mode_name = pick(rng, ["PER_TENSOR", "PER_CHANNEL"])
        attrs.update(kv_cache_bit_width=bits, k_quant_type=mode_name, v_quant_type=mode_name)
        step = 2.2 / (127 if bits == 8 else 7)
        shape = [1] if mode_name == "PER_TENSOR" else pick(rng, [[1, kv_heads, 1, head], [kv_heads * head]])
        k_scale = (step * (0.8 + 0.4 * rng.random(shape))).astype(F32)
        v_scale = (step * (0.8 + 0.4 * rng.random(shape))).astype(F32)
        cache_code = 3 if bits == 8 else 2
    if past_rows is not None:
        def cache():
            if not quantized:
                rows = real(rng, (batch, kv_heads, past_rows, head), dtype)
            elif cache_code == 3:
                rows = rng.integers(-128, 128, size=(batch, kv_heads, past_rows, head)).astype(np.int8)
            else:
                rows = rng.integers(0, 256, size=(batch, kv_heads, past_rows, head // 2)).astype(np.uint8)
            for sample in range(batch):  # rows past the valid length are no one's: zeros, so that they are defined
                rows[sample, :, int(valid[sample]):] = 0
            return rows
        past_key, past_value = cache(), cache()
    elif quantized and chance(rng, 0.5):
        return None
    seqlens = (lengths - 1).astype(np.int32)
    if chance(rng, 0.15):
        seqlens = seqlens.reshape(batch, 1)
    total_tensor = np.array(total, np.int32) if chance(rng, 0.5) else np.array([total], np.int32)
    cos = sin = positions = None
    if rotary:
        rows = total + int(rng.integers(0, 4)) + 2
        width = head // 2 if head == 16 or chance(rng, 0.6) else 8
        angle = rng.random((rows, width)) * 6.28
        cos, sin = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)
        if chance(rng, 0.3):
            if prompt:
                positions = np.tile(np.arange(length), (batch, 1)).astype(np.int64) + int(rng.integers(0, 3))
            else:
                positions = rng.integers(0, rows, size=(batch, length)).astype(np.int64)
    bias = sink = None
    if mode != "window" and chance(rng, 0.25):
        bias = real(rng, (pick(rng, [1, batch]), pick(rng, [1, heads]), length, total), dtype)
    if chance(rng, 0.2):
        sink = real(rng, (heads,), dtype)
    presents = has_past or mode == "window" or quantized or chance(rng, 0.7)
    outputs = ["y0", "y1", "y2"] if presents else ["y0"]
    types = [FLOAT_CODE[dtype]] + [cache_code] * (len(outputs) - 1)
    if query_key:
        outputs = outputs + ["y3"] if presents else ["y0", "", "", "y3"]
        types.append(FLOAT_CODE[dtype])
    # A quantized cache is read back in float32, in the order of the kernel that the machine has.
    close = tolerance(dtype, 1e-3, 4e-3) if quantized else tolerance(dtype)
    return dict(inputs=[query, key, value, past_key, past_value, seqlens, total_tensor, cos, sin, positions, bias, sink, k_scale, v_scale],
                outputs=outputs, attrs=attrs, output_types=types, symbolic=chance(rng, 0.2), **close, **MS)


# ---- MultiHeadAttention -------------------------------------------------------------------------------------------------
def multi_head_attention(rng, index):
    batch, heads = pick(rng, [1, 2, 3]), pick(rng, [1, 2, 3])
    head = pick(rng, [4, 5, 8])
    v_head = head if chance(rng, 0.7) else pick(rng, [3, 6])
    length = int(rng.integers(1, 6))
    cross = index % 5 == 4
    kv_length = int(rng.integers(1, 7)) if cross or chance(rng, 0.4) else length
    has_past = not cross and chance(rng, 0.4)
    past = int(rng.integers(0, 5)) if has_past else 0
    total = past + kv_length
    if has_past:
        v_head = head
    attrs = dict(num_heads=heads)
    if chance(rng, 0.3):
        attrs["scale"] = float(pick(rng, [0.25, 1.0]))
    if chance(rng, 0.35):
        attrs["unidirectional"] = 1
    if chance(rng, 0.4):
        attrs["mask_filter_value"] = float(pick(rng, [-3.0, -100.0]))
    hidden = heads * head
    query = real(rng, (batch, length, hidden))
    if cross:
        v_head = head
        key, value = real(rng, (batch, heads, kv_length, head)), real(rng, (batch, heads, kv_length, head))
    else:
        key, value = real(rng, (batch, kv_length, hidden)), real(rng, (batch, kv_length, heads * v_head))
    bias = real(rng, (2 * hidden + heads * v_head,)) if chance(rng, 0.4) else None
    mask = None
    kind = int(rng.integers(0, 8))
    if kind == 0:
        mask = rng.integers(1, total + 1, size=(batch,)).astype(np.int32)
    elif kind == 1:
        lengths = rng.integers(1, total + 1, size=(batch,))
        mask = np.concatenate([lengths, np.arange(batch + 1) * length, np.arange(batch + 1) * total]).astype(np.int32)
    elif kind == 2:
        mask = (rng.random((batch, total)) < 0.7).astype(np.int32)
        mask[:, 0] = 1
    elif kind == 3:
        mask = (rng.random((batch, length, total)) < 0.7).astype(np.int32)
        mask[:, :, 0] = 1
    attention_bias = real(rng, (pick(rng, [1, batch]), pick(rng, [1, heads]), length, total)) if chance(rng, 0.3) else None
    past_key = real(rng, (batch, heads, past, head)) if has_past else None
    past_value = real(rng, (batch, heads, past, head)) if has_past else None
    outputs = ["y0", "y1", "y2"] if has_past or chance(rng, 0.3) else ["y0"]
    if chance(rng, 0.2):
        outputs = outputs + ["y3"] if len(outputs) == 3 else ["y0", "", "", "y3"]
    return dict(inputs=[query, key, value, bias, mask, attention_bias, past_key, past_value], outputs=outputs, attrs=attrs,
                output_types=[1] * len([n for n in outputs if n]), symbolic=chance(rng, 0.2), rtol=1e-4, atol=1e-4, **MS)


# ---- RotaryEmbedding ----------------------------------------------------------------------------------------------------
def rotary_embedding(rng, index):
    dtype = pick(rng, [F32, F32, F16])
    batch, heads, length = pick(rng, [1, 2, 3]), pick(rng, [1, 2, 3]), int(rng.integers(1, 6))
    head = pick(rng, [4, 6, 8, 10, 16, 34])
    attrs = dict(interleaved=pick(rng, [None, 0, 1]), scale=pick(rng, [None, None, 1.0]), is_packed_batching=pick(rng, [None, None, 0, 1]))
    partial = chance(rng, 0.4)
    rotary = head
    if partial:
        rotary = 2 * int(rng.integers(1, head // 2 + 1))
        attrs.update(rotary_embedding_dim=rotary, num_heads=heads)
    elif chance(rng, 0.5):
        attrs.update(num_heads=heads)
    four = chance(rng, 0.4)
    data = real(rng, (batch, heads, length, head) if four else (batch, length, heads * head), dtype)
    rows = length + int(rng.integers(0, 5))
    angle = rng.random((rows, rotary // 2)) * 6.28
    if chance(rng, 0.4):
        positions = np.array([int(rng.integers(0, rows - length + 1))], np.int64)
    else:
        positions = rng.integers(0, rows, size=(batch, length)).astype(np.int64)
    return dict(inputs=[data, positions, np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)], attrs=attrs,
                output_types=[FLOAT_CODE[dtype]], symbolic=chance(rng, 0.2), **tolerance(dtype), **MS)


# ---- normalisations -----------------------------------------------------------------------------------------------------
def skip_norm(simplified):
    def make(rng, index):
        dtype = pick(rng, [F32, F32, F16])
        width = pick(rng, [1, 2, 3, 8, 17, 32]) if simplified else pick(rng, [2, 3, 8, 17, 32])
        flat = chance(rng, 0.25)
        shape = (int(rng.integers(1, 5)), width) if flat else (int(rng.integers(1, 4)), int(rng.integers(1, 5)), width)
        skip_shape = shape if flat else pick(rng, [shape, shape, (1, *shape[1:]), shape[1:]])
        gamma = real(rng, (width,), dtype)
        beta = real(rng, (width,), dtype) if chance(rng, 0.6) else None
        bias = real(rng, (width,), dtype) if chance(rng, 0.5) else None
        outputs = ["y0"] if chance(rng, 0.5) else ["y0", "", "", "y3"]
        inputs = [real(rng, shape, dtype), real(rng, skip_shape, dtype), gamma] + ([bias] if simplified else [beta, bias])
        constants = (2,) if chance(rng, 0.3) else ()
        return dict(inputs=inputs, outputs=outputs, attrs=dict(epsilon=pick(rng, [1e-5, 1e-3, 0.1])), constants=constants,
                    output_types=[FLOAT_CODE[dtype]] * (1 if len(outputs) == 1 else 2), symbolic=chance(rng, 0.2),
                    **tolerance(dtype, 2e-4, 5e-3), **MS)
    return make


def simplified_norm(rng, index):
    dtype = pick(rng, [F32, F32, F16, np.float64])
    rank = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(1, 6, size=rank))
    axis = int(rng.integers(-rank, rank)) if chance(rng, 0.5) else None
    normalized = shape[-1:] if axis is None else shape[axis % rank:]
    outputs = 1
    code = {F32: 1, F16: 10, np.float64: 11}[dtype]
    return dict(inputs=[real(rng, shape, dtype) + np.asarray(0.5, dtype), real(rng, normalized, dtype)], outputs=outputs,
                attrs=dict(axis=axis, epsilon=pick(rng, [None, 1e-6, 0.1]), stash_type=pick(rng, [None, 1])), output_types=[code], opset=pick(rng, [14, 17, 21]), twice=True,
                symbolic=chance(rng, 0.2), **tolerance(F32 if dtype != F16 else F16, 2e-4, 5e-3))


# ---- MatMulNBits --------------------------------------------------------------------------------------------------------
def matmul_nbits(rng, index):
    dtype = pick(rng, [F32, F32, F16])
    bits = [4, 4, 8, 2][index % 4]
    block = pick(rng, [16, 16, 32, 32, 64, 128])
    k = int(pick(rng, [block, 2 * block, int(rng.integers(1, 80)), int(rng.integers(1, 80)), 3 * block - 7]))
    k = min(k, 200)
    n = int(rng.integers(1, 20))
    blocks = -(-k // block)
    rank = pick(rng, [1, 2, 2, 3, 4]) if index % 7 else 1
    shape = tuple(int(d) for d in rng.integers(1, 4, size=rank - 1)) + (k,)
    packed = rng.integers(0, 256, size=(n, blocks, block * bits // 8)).astype(np.uint8)
    scales = (0.02 + 0.1 * rng.integers(1, 65, size=(n, blocks)) / 64).astype(dtype)
    a = real(rng, shape, dtype)
    zero = None
    kind = int(rng.integers(0, 4))
    if kind in (0, 1):
        zero = rng.integers(0, 256, size=(n, -(-blocks * bits // 8))).astype(np.uint8)
    elif kind == 2 and bits != 8:
        zero = (rng.integers(0, 4 * 2 ** bits, size=(n, blocks)) / 4).astype(dtype)
    group = None
    if bits == 4 and (zero is None or zero.dtype != np.uint8) and chance(rng, 0.25):
        # onnxruntime drops packed zero points beside g_idx, and reads 2-bit weights as 4-bit: those stay out.
        group = rng.integers(0, blocks, size=(blocks * block,)).astype(np.int32)
    if chance(rng, 0.15):
        scales = scales.reshape(-1)
        zero = None if zero is None else zero.reshape(-1)
    bias = real(rng, (n,), dtype) if chance(rng, 0.35) else None
    level = pick(rng, [None, None, 0, 1, 4, 4])
    constants = tuple(i for i, v in enumerate([None, packed, scales, zero, group, bias]) if v is not None) if chance(rng, 0.6) else ()
    # Accumulation in float32 over k terms: the tolerance follows the size of the terms.
    unpacked = np.stack([(packed >> (bits * i)) & (2 ** bits - 1) for i in range(8 // bits)], -1).reshape(n, blocks, block).astype(np.float64)
    if zero is None:
        offset = np.full((n, blocks), 2.0 ** (bits - 1))
    elif zero.dtype == np.uint8:
        z = zero.reshape(n, -1)
        offset = np.stack([(z >> (bits * i)) & (2 ** bits - 1) for i in range(8 // bits)], -1).reshape(n, -1)[:, :blocks].astype(np.float64)
    else:
        offset = zero.reshape(n, blocks).astype(np.float64)
    weight = np.abs((unpacked - offset[..., None]) * scales.reshape(n, blocks).astype(np.float64)[..., None])
    atol = 2e-6 * float(weight.sum((1, 2)).max()) * 2 + 1e-4
    if level == 4:
        # Each activation is rounded to a 254th of its block's largest (2/127 here): five standard deviations of the sum.
        atol += 5 * (2.0 / 127 / np.sqrt(12)) * float(np.sqrt((weight ** 2).sum((1, 2)).max()))
    rtol = 1e-4 if dtype == F32 else 4e-3
    return dict(inputs=[a, packed, scales, zero, group, bias], attrs=dict(K=k, N=n, bits=bits, block_size=block, accuracy_level=level),
                output_types=[FLOAT_CODE[dtype]], constants=constants, symbolic=chance(rng, 0.2), rtol=rtol, atol=atol + (2e-3 if dtype == F16 else 0), **MS)


# ---- GatherBlockQuantized -----------------------------------------------------------------------------------------------
def gather_block_quantized(rng, index):
    import ml_dtypes
    dtype = pick(rng, [F32, F32, F16])
    kind = ["uint8", "int4", "uint4"][index % 3]
    block = pick(rng, [16, 16, 32, 64])
    rank = pick(rng, [2, 2, 3])
    if kind == "uint8":
        bits = pick(rng, [2, 4, 8])
        pack = 8 // bits
        gather, quantize = 0, rank - 1
        shape = [int(d) for d in rng.integers(1, 5, size=rank)]
        shape[-1] = int(rng.integers(1, 3 * block // pack + 1))
    else:
        bits, pack = 4, 1
        gather, quantize = int(rng.integers(rank)), int(rng.integers(rank))
        shape = [int(d) for d in rng.integers(1, 5, size=rank)]
        shape[quantize] = int(rng.integers(1, 3 * block))
        if int(np.prod(shape)) > 400:
            return None
    scale_shape = list(shape)
    scale_shape[quantize] = -(-shape[quantize] * pack // block)
    zero_shape = list(scale_shape)
    zero_shape[quantize] = -(-scale_shape[quantize] // pack)
    if kind == "uint8":
        data = rng.integers(0, 256, size=shape).astype(np.uint8)
        zero = rng.integers(0, 256, size=zero_shape).astype(np.uint8)
    else:
        low, high, np_type = (-8, 8, ml_dtypes.int4) if kind == "int4" else (0, 16, ml_dtypes.uint4)
        data = rng.integers(low, high, size=shape).astype(np.int8).astype(np_type)
        zero = rng.integers(low, high, size=zero_shape).astype(np.int8).astype(np_type)
    scales = (rng.integers(1, 65, size=scale_shape) / 64).astype(dtype)
    size = shape[gather]
    indices = rng.integers(-size, size, size=[int(d) for d in rng.integers(1, 4, size=int(rng.integers(0, 3)))]).astype(pick(rng, [np.int32, np.int64]))
    attrs = dict(bits=None if bits == 4 and chance(rng, 0.5) else bits, block_size=block,
                 gather_axis=gather if gather != 0 or chance(rng) else None, quantize_axis=quantize if quantize != 1 or chance(rng) else None)
    if attrs["gather_axis"] is not None and chance(rng, 0.3):
        attrs["gather_axis"] -= rank
    if attrs["quantize_axis"] is not None and chance(rng, 0.3):
        attrs["quantize_axis"] -= rank
    return dict(inputs=[data, np.asarray(indices), scales, zero if chance(rng, 0.6) else None], attrs=attrs, output_types=[FLOAT_CODE[dtype]],
                constants=(0, 2, 3) if chance(rng, 0.3) else (), **tolerance(dtype, 1e-5, 2e-3), **MS)


# ---- FusedMatMul --------------------------------------------------------------------------------------------------------
def fused_matmul(rng, index):
    dtype = pick(rng, [F32, F32, np.float64])
    attrs = dict(alpha=float(pick(rng, [1.0, 0.5, -2.0, 0.125])) if chance(rng, 0.7) else None)
    m, k, n = (int(d) for d in rng.integers(1, 6, size=3))
    trans_a, trans_b = chance(rng, 0.4), chance(rng, 0.4)
    batch_a = batch_b = False
    if index % 3 == 0:  # transBatch: both of one rank of at least 3
        rank = pick(rng, [3, 4])
        lead = [int(d) for d in rng.integers(1, 4, size=rank - 2)]
        batch_a, batch_b = chance(rng, 0.7), chance(rng, 0.7)
        a_shape, b_shape = [*lead, *([k, m] if trans_a else [m, k])], [*lead, *([n, k] if trans_b else [k, n])]
        if batch_a:
            a_shape = [a_shape[-2], *lead, a_shape[-1]]
        if batch_b:
            b_shape = [b_shape[-2], *lead, b_shape[-1]]
    else:
        ranks = pick(rng, [(2, 2), (3, 2), (3, 3), (4, 3), (2, 3), (1, 2), (2, 1), (1, 1), (4, 2)])
        lead = [int(d) for d in rng.integers(1, 4, size=2)]
        # onnxruntime misreads a transposed matrix beside a vector on the right.
        trans_a, trans_b = trans_a and ranks[0] > 1 and ranks[1] > 1, trans_b and ranks[1] > 1
        def shape(rank, matrix, vector):
            if rank == 1:
                return vector
            return [d if chance(rng, 0.7) else 1 for d in lead[2 - (rank - 2):]] + matrix if rank > 2 else matrix
        a_shape = shape(ranks[0], [k, m] if trans_a else [m, k], [k])
        b_shape = shape(ranks[1], [n, k] if trans_b else [k, n], [k])
    attrs.update(transA=int(trans_a) or None, transB=int(trans_b) or None, transBatchA=int(batch_a) or None, transBatchB=int(batch_b) or None)
    return dict(inputs=[real(rng, a_shape, dtype), real(rng, b_shape, dtype)], attrs=attrs, output_types=[1 if dtype == F32 else 11],
                symbolic=chance(rng, 0.2), rtol=1e-4, atol=1e-4, **MS)


# ---- Gelu and its kin ---------------------------------------------------------------------------------------------------
def gelu(name):
    def make(rng, index):
        dtype = F32 if index % 5 else pick(rng, [F16, np.float64])
        code = {F32: 1, F16: 10, np.float64: 11}[dtype]
        shape = tuple(int(d) for d in rng.integers(1, 7, size=int(rng.integers(1, 5))))
        data = real(rng, shape, dtype, scale=pick(rng, [2.0, 8.0]))
        inputs, attrs = [data], {}
        if name == "BiasGelu" or (name == "FastGelu" and chance(rng, 0.6)):
            inputs.append(real(rng, shape[-1:], dtype))
        if name == "QuickGelu":
            attrs["alpha"] = pick(rng, [None, 1.0, 0.5, -1.25])
        return dict(inputs=inputs, attrs=attrs, output_types=[code], symbolic=chance(rng, 0.2), **tolerance(F16 if dtype == F16 else F32, 1e-4, 5e-3), **MS)
    return make


# ---- products of 8-bit integers -----------------------------------------------------------------------------------------
def integer_operands(rng):
    m, k, n = (int(d) for d in rng.integers(1, 9, size=3))
    lead = [int(d) for d in rng.integers(1, 3, size=int(rng.integers(0, 3)))]
    batched = bool(lead) and chance(rng, 0.4)
    return m, k, n, lead, batched


def eight_bits(rng, shape, dtype):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, size=shape).astype(dtype)


def column_parameter(rng, n, lead, batched, draw):
    """A scalar, one element, one a column, or (for a batched B) one a column of every matrix."""
    kind = int(rng.integers(0, 4 if batched else 3))
    return draw([[], [1], [n], [*lead, 1, n]][kind])


def column_bias(rng, n, scale, batched):
    """A bias, but not where onnxruntime scales it too: a vector of scales beside a batched B."""
    return real(rng, [n]) if chance(rng, 0.4) and not (batched and scale.ndim == 1 and scale.size > 1) else None


def dynamic_quantize_matmul(rng, index):
    m, k, n, lead, batched = integer_operands(rng)
    b_type = pick(rng, [np.int8, np.uint8])
    a = real(rng, [*lead, m, k], F32, scale=pick(rng, [1.0, 3.0]), step=50)
    b = eight_bits(rng, [*lead, k, n] if batched else [k, n], b_type)
    scale = column_parameter(rng, n, lead, batched, lambda s: (rng.integers(1, 33, size=s) / 1024).astype(F32))
    zero = None
    if chance(rng, 0.6):
        zero = np.asarray(eight_bits(rng, [n] if scale.size > 1 and scale.ndim == 1 else [*lead, 1, n] if scale.ndim > 1 else scale.shape, b_type))
    bias = column_bias(rng, n, scale, batched)
    return dict(inputs=[a, b, np.asarray(scale), zero, bias], output_types=[1], constants=(1, 3) if zero is not None and chance(rng, 0.3) else (),
                symbolic=chance(rng, 0.2), rtol=1e-4, atol=1e-4, **MS)


def matmul_integer_to_float(rng, index):
    m, k, n, lead, batched = integer_operands(rng)
    a_type = pick(rng, [np.int8, np.uint8])
    b_type = np.int8 if a_type == np.int8 else pick(rng, [np.int8, np.uint8])
    a, b = eight_bits(rng, [*lead, m, k], a_type), eight_bits(rng, [*lead, k, n] if batched else [k, n], b_type)
    a_scale = (rng.integers(1, 33, size=pick(rng, [[], [1]])) / 1024).astype(F32)
    b_scale = column_parameter(rng, n, lead, batched, lambda s: (rng.integers(1, 33, size=s) / 1024).astype(F32))
    a_zero = np.asarray(eight_bits(rng, pick(rng, [[], [1]]), a_type)) if chance(rng, 0.6) else None
    b_zero = None
    if chance(rng, 0.6):
        b_zero = np.asarray(eight_bits(rng, [n] if b_scale.size > 1 and b_scale.ndim == 1 else [*lead, 1, n] if b_scale.ndim > 1 else b_scale.shape, b_type))
    bias = column_bias(rng, n, b_scale, batched)
    return dict(inputs=[a, b, np.asarray(a_scale), np.asarray(b_scale), a_zero, b_zero, bias], output_types=[1], symbolic=chance(rng, 0.2), rtol=1e-4, atol=1e-4, **MS)


if __name__ == "__main__":
    corpus.many("GroupQueryAttention", 320, group_query_attention)
    corpus.many("MultiHeadAttention", 180, multi_head_attention)
    corpus.many("RotaryEmbedding", 60, rotary_embedding)
    corpus.many("SkipLayerNormalization", 60, skip_norm(False))
    corpus.many("SkipSimplifiedLayerNormalization", 60, skip_norm(True))
    corpus.many("SimplifiedLayerNormalization", 60, simplified_norm)
    corpus.many("MatMulNBits", 200, matmul_nbits)
    corpus.many("GatherBlockQuantized", 120, gather_block_quantized)
    corpus.many("FusedMatMul", 80, fused_matmul)
    for name in ("BiasGelu", "FastGelu", "QuickGelu", "Gelu"):
        corpus.many(name, 60, gelu(name))
    corpus.many("DynamicQuantizeMatMul", 70, dynamic_quantize_matmul)
    corpus.many("MatMulIntegerToFloat", 70, matmul_integer_to_float)
    corpus.save(sys.argv[1] if len(sys.argv) > 1 else "contrib.tar.gz")
