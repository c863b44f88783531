"""Random cases of ONNX's own operators: a differential corpus beside ONNX's test suite.

Usage: python3 random_operators.py OUT.tar.gz     (needs onnx 1.23, onnxruntime 1.30, numpy, ml_dtypes; under three minutes)
Each case is answered by onnxruntime where it has a kernel, by onnx.reference otherwise; where both answer and disagree the
case is dropped and reported. The archive holds random-ops/CASE/ in ONNX's backend-test layout.
"""
import os, sys, warnings
import ml_dtypes
import numpy as np
from onnx import TensorProto, defs, helper

from corpus import CODES, Corpus, chance, code_of, dtype_of, pick, real, tensor_proto

warnings.filterwarnings("ignore")
F32 = np.dtype(np.float32)
corpus = Corpus("random-ops", 20261116)
SPELLING = {"tensor(float)": "float32", "tensor(double)": "float64"}
WORDS = ["", "a", "b", "ab", "Ab", "zebra", "ä", "日本", "0", " "]


# ---- types, shapes, data ------------------------------------------------------------------------------------------------
def version(rng, low=13, high=26):
    return int(rng.integers(max(low, 1), high + 1))


def types_of(op, opset, name, only=None):
    """The element types the schema allows for an input or output of that name, as numpy dtypes."""
    schema = defs.get_schema(op, opset, "")
    parameter = next(p for p in [*schema.inputs, *schema.outputs] if p.name == name)
    texts = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == parameter.type_str), [parameter.type_str])
    result = []
    for text in texts:
        name = SPELLING.get(text, text[len("tensor("):-1]).replace("float8e4m3fnuz", "float8_e4m3fnuz").replace("float8e4m3fn", "float8_e4m3fn")
        name = name.replace("float8e5m2fnuz", "float8_e5m2fnuz").replace("float8e5m2", "float8_e5m2").replace("float8e8m0", "float8_e8m0fnu").replace("float4e2m1", "float4_e2m1fn")
        if text.startswith("tensor(") and name in CODES and not name.startswith("complex") and name != "float8_e4m3fn_":
            result.append(np.dtype(object) if name == "string" else np.dtype(dtype_of(CODES[name])))
    if only is not None:
        result = [t for t in result if only(t)]
    if not result:
        raise ValueError(f"{op}-{opset} {name}: no type left of {texts}")
    return result


is_float = lambda t: t.name in ("float16", "float32", "float64", "bfloat16")
is_integer = lambda t: t.kind in "iu" and t.name not in ("int4", "uint4", "int2", "uint2")
is_number = lambda t: is_float(t) or is_integer(t)
plain_type = lambda t: is_number(t) or t.kind in "bO"


def data(rng, shape, dtype, scale=2.0, full=0.25, step=16):
    dtype = np.dtype(dtype)
    if dtype.kind == "O":
        return np.array([pick(rng, WORDS) for _ in range(int(np.prod(shape)))], dtype=object).reshape(shape)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.name in ("int4", "uint4", "int2", "uint2"):
        bits = int(dtype.name[-1])
        low = -(2 ** (bits - 1)) if dtype.name[0] == "i" else 0
        return np.asarray(rng.integers(low, low + 2 ** bits, size=shape)).astype(np.int8).astype(dtype)
    if is_integer(dtype):
        info = np.iinfo(dtype)
        if rng.random() < full:
            return np.asarray(rng.integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True))
        return np.asarray(rng.integers(max(info.min, -9), 10, size=shape)).astype(dtype)
    return np.asarray(real(rng, shape, np.float32, scale, step)).astype(dtype)


def shape_of(rng, low=0, high=4, most=5, zero=0.06):
    return tuple(0 if rng.random() < zero else int(rng.integers(1, most + 1)) for _ in range(int(rng.integers(low, high + 1))))


def broadcast(rng, count, high=4):
    """Shapes that broadcast against each other."""
    full = shape_of(rng, 0, high)
    shapes = []
    for _ in range(count):
        shape = [1 if rng.random() < 0.3 else d for d in full]
        shapes.append(tuple(shape[int(rng.integers(0, len(shape) + 1)):] if rng.random() < 0.4 else shape))
    shapes[int(rng.integers(count))] = full
    return shapes


def axis_of(rng, rank):
    return int(rng.integers(-rank, rank))


def axes_of(rng, rank):
    chosen = rng.permutation(rank)[:int(rng.integers(0, rank + 1))]
    return [int(a) - (rank if rng.random() < 0.4 else 0) for a in chosen]


def i64(values):
    return np.array(values, np.int64)


def both(opset, inputs, attrs=None, outputs=1, **more):
    return dict(inputs=inputs, attrs=attrs or {}, outputs=outputs, opset=opset, oracle="both", **more)


def varied(rng, case):
    """Now and then: dimensions that the model only names, and integers that the model holds as constants."""
    if case is not None and chance(rng, 0.4):
        case["symbolic"] = chance(rng, 0.4)
        case["constants"] = tuple(i for i, a in enumerate(case["inputs"]) if i > 0 and a is not None and a.dtype == np.int64 and chance(rng, 0.6))
    return case


MAKERS = {}


def maker(*names, count=12):
    def register(function):
        for name in names:
            MAKERS[name] = (2 * count, lambda rng, index, name=name: varied(rng, function(rng, index, name)))
        return function
    return register


# ---- element-wise -------------------------------------------------------------------------------------------------------
LIMITED = {"Acos": 1, "Asin": 1, "Atanh": 0.9, "Tan": 1.2}
POSITIVE = {"Log", "Sqrt", "Acosh"}
ATTRIBUTES = {"Celu": {"alpha": [0.5, 2.0]}, "Elu": {"alpha": [0.5, 2.0]}, "Selu": {"alpha": [1.2], "gamma": [0.8, 2.0]}, "LeakyRelu": {"alpha": [0.1, -0.5]},
              "HardSigmoid": {"alpha": [0.3], "beta": [0.4, 0.6]}, "ThresholdedRelu": {"alpha": [0.5, -1.0]}, "Shrink": {"bias": [0.5, 1.0], "lambd": [0.25, 1.0]},
              "Gelu": {"approximate": ["tanh", "none"]}, "Swish": {"alpha": [0.5, 1.702]}}


@maker("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
       "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
       "Swish", "Tan", "Tanh", "ThresholdedRelu", "BitwiseNot", "Not", "IsNaN", "IsInf", count=10)
def unary(rng, index, op):
    since = min(s.since_version for s in defs.get_all_schemas_with_history() if s.name == op and s.domain == "")
    opset = version(rng, max(13, since))
    first = defs.get_schema(op, opset, "").inputs[0].name
    dtype = pick(rng, types_of(op, opset, first, plain_type))
    x = data(rng, shape_of(rng), dtype, scale=LIMITED.get(op, pick(rng, [2.0, 6.0])))
    if op in POSITIVE:
        x = np.abs(x.astype(np.float32)).astype(dtype) + np.asarray(1 if op == "Acosh" else 0.0625).astype(dtype)
    if op == "Reciprocal":
        x = np.where(x.astype(np.float32) == 0, np.float32(1), x.astype(np.float32)).astype(dtype)
    if op in ("IsNaN", "IsInf", "Relu", "Abs", "Sign", "Floor", "Neg") and is_float(dtype) and chance(rng, 0.5) and x.size:
        special = np.array([np.inf, -np.inf, -0.0] + ([np.nan] if op.startswith("Is") else []), np.float32)
        mask = rng.random(x.shape) < 0.3
        x = np.where(mask, special[rng.integers(0, len(special), size=x.shape)], x.astype(np.float32)).astype(dtype)
    attrs = {k: pick(rng, v) for k, v in ATTRIBUTES.get(op, {}).items() if chance(rng, 0.6)}
    if op == "IsInf":
        attrs = {k: int(rng.integers(2)) for k in ("detect_negative", "detect_positive") if chance(rng)}
    return both(opset, [x], attrs)


@maker("Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", count=14)
def binary(rng, index, op):
    opset = version(rng, 18 if op.startswith("Bitwise") else 13)
    schema = defs.get_schema(op, opset, "")
    dtype = pick(rng, types_of(op, opset, schema.inputs[0].name, plain_type))
    if op in ("Mod", "Div") and chance(rng, 0.5):
        dtype = pick(rng, [t for t in types_of(op, opset, schema.inputs[0].name, plain_type) if is_integer(t)])
    a_shape, b_shape = broadcast(rng, 2)
    a, b = data(rng, a_shape, dtype), data(rng, b_shape, dtype)
    attrs = {}
    if op in ("Div", "Mod"):
        b = np.where(b == 0, np.asarray(3, np.int8).astype(dtype), b).astype(dtype)
        if is_integer(dtype) and dtype.kind == "i":
            b = np.where(b == -1, np.asarray(2).astype(dtype), b).astype(dtype)
    if op == "Mod":
        attrs["fmod"] = 1 if is_float(dtype) else pick(rng, [None, 0, 1])
    if op == "Pow":
        other = pick(rng, types_of(op, opset, "Y", lambda t: is_number(t) and t.name != "bfloat16"))
        a = np.abs(a) if dtype.kind != "u" else a
        if is_integer(dtype):
            a = np.asarray(rng.integers(0, 6, size=a_shape)).astype(dtype)
        else:
            a = (a.astype(np.float32) + np.float32(0.25)).astype(dtype)
        b = np.asarray(rng.integers(0, 4, size=b_shape)).astype(other)
    return both(opset, [a, b], attrs)


@maker("BitShift", count=10)
def bit_shift(rng, index, op):
    opset = version(rng, 13, 26)
    dtype = pick(rng, types_of(op, opset, "X"))
    a, b = broadcast(rng, 2)
    return both(opset, [data(rng, a, dtype, full=1), np.asarray(rng.integers(0, np.iinfo(dtype).bits, size=b)).astype(dtype)], dict(direction=pick(rng, ["LEFT", "RIGHT"])))


@maker("PRelu", count=10)
def prelu(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "X", is_number))
    full = shape_of(rng, 1)
    slope = tuple(1 if chance(rng, 0.4) else d for d in full)[int(rng.integers(0, len(full))):]
    return both(opset, [data(rng, full, dtype, full=0), data(rng, slope, dtype, full=0)])


@maker("Max", "Min", "Mean", "Sum", count=12)
def variadic(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "data_0", is_number))
    return both(opset, [data(rng, s, dtype, full=0.1 if op != "Sum" else 0) for s in broadcast(rng, pick(rng, [1, 2, 3, 4]))])


@maker("Where", count=12)
def where(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "X", plain_type))
    c, a, b = broadcast(rng, 3)
    return both(opset, [data(rng, c, np.bool_), data(rng, a, dtype), data(rng, b, dtype)])


@maker("Clip", count=14)
def clip(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "input", is_number))
    low, high = data(rng, (), dtype, 1, 0), data(rng, (), dtype, 1, 0)
    if chance(rng, 0.8) and low > high:
        low, high = high, low
    return both(opset, [data(rng, shape_of(rng), dtype), low if chance(rng, 0.7) else None, high if chance(rng, 0.7) else None])


@maker("Dropout", count=6)
def dropout(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "data", is_float))
    ratio = np.asarray(0.5, dtype=pick(rng, types_of(op, opset, "ratio", is_float))) if chance(rng) else None
    return both(opset, [data(rng, shape_of(rng, 1), dtype), ratio, np.array(False) if chance(rng) else None], outputs=pick(rng, [1, 2]))


# ---- reductions ---------------------------------------------------------------------------------------------------------
@maker("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", count=14)
def reduce(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "data", lambda t: is_number(t) or t.kind == "b"))
    shape = shape_of(rng, 0, 4, zero=0.03)
    x = data(rng, shape, dtype, full=0)
    if op == "ReduceLogSum":
        x = (np.abs(x.astype(np.float32)) + 1).astype(dtype)
    if op == "ReduceProd" and is_integer(dtype):
        x = np.asarray(rng.integers(1, 3, size=shape)).astype(dtype)
    axes = axes_of(rng, len(shape)) if chance(rng, 0.8) else None
    attrs = dict(keepdims=pick(rng, [None, 0, 1]))
    as_input = op == "ReduceSum" or opset >= 18
    needs = ("ort", "reference") if 0 in shape or is_integer(dtype) and "Log" in op else ()  # oracles differ there
    if as_input:
        attrs["noop_with_empty_axes"] = pick(rng, [None, None, 0, 1])
        return both(opset, [x, i64(axes) if axes is not None else None], attrs, needs=needs)
    attrs["axes"] = axes if axes else None
    return both(opset, [x], attrs, needs=needs)


@maker("ArgMax", "ArgMin", count=12)
def arg(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "data", is_number))
    shape = shape_of(rng, 1, 4, zero=0)
    x = np.asarray(rng.integers(0, 4, size=shape)).astype(dtype)
    return both(opset, [x], dict(axis=pick(rng, [None, axis_of(rng, len(shape))]), keepdims=pick(rng, [None, 0, 1]), select_last_index=pick(rng, [None, 0, 1])))


@maker("CumSum", "CumProd", count=12)
def cumulative(rng, index, op):
    opset = version(rng, 26 if op == "CumProd" else 13)
    dtype = pick(rng, types_of(op, opset, "x", is_number))
    shape = shape_of(rng, 1, 4)
    x = data(rng, shape, dtype, full=0) if op == "CumSum" else np.asarray(rng.integers(1, 3, size=shape)).astype(dtype)
    return both(opset, [x, np.asarray(axis_of(rng, len(shape)), pick(rng, [np.int32, np.int64]))], dict(exclusive=pick(rng, [None, 1]), reverse=pick(rng, [None, 1])))


@maker("TopK", count=14)
def top_k(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "X", is_number))
    shape = shape_of(rng, 1, 4, zero=0)
    axis = axis_of(rng, len(shape))
    size = shape[axis]
    order = np.argsort(rng.random(shape), axis=axis)  # no two equal: the order of ties is no one's
    x = order.astype(dtype)
    if is_float(dtype):
        x = (order - size / 2).astype(dtype)
    return both(opset, [x, i64([int(rng.integers(0, size + 1))])], dict(axis=axis if axis != -1 or chance(rng) else None, largest=pick(rng, [None, 0, 1]), sorted=pick(rng, [None, 1])), outputs=2)


# ---- moving elements ----------------------------------------------------------------------------------------------------
def any_type(rng, op, opset, name):
    return pick(rng, types_of(op, opset, name))


@maker("Concat", count=12)
def concat(rng, index, op):
    opset = version(rng)
    shape = list(shape_of(rng, 1))
    axis = axis_of(rng, len(shape))
    dtype = any_type(rng, op, opset, "inputs")
    parts = []
    for _ in range(pick(rng, [1, 2, 3, 4])):
        part = list(shape)
        part[axis] = int(rng.integers(0, 4))
        parts.append(data(rng, part, dtype))
    return both(opset, parts, dict(axis=axis))


@maker("Split", count=14)
def split(rng, index, op):
    opset = version(rng)
    dtype = any_type(rng, op, opset, "input")
    shape = list(shape_of(rng, 1))
    axis = axis_of(rng, len(shape))
    count = int(rng.integers(1, 4))
    given = chance(rng)
    sizes = [int(d) for d in rng.integers(0, 4, size=count)]
    if opset < 18 and not given:
        shape[axis] = count * int(rng.integers(1, 3))
        return both(opset, [data(rng, shape, dtype)], dict(axis=axis), outputs=count)
    if given:
        shape[axis] = sum(sizes)
        return both(opset, [data(rng, shape, dtype), i64(sizes)], dict(axis=axis), outputs=count)
    shape[axis] = int(rng.integers(count, 3 * count + 1))
    if -(-shape[axis] // count) * (count - 1) >= shape[axis]:
        return None
    return both(opset, [data(rng, shape, dtype)], dict(axis=axis, num_outputs=count), outputs=count)


@maker("Slice", count=18)
def slice_(rng, index, op):
    opset = version(rng)
    dtype = any_type(rng, op, opset, "data")
    shape = shape_of(rng, 1, 4)
    axes = axes_of(rng, len(shape)) or [0]
    starts, ends, steps = [], [], []
    for axis in axes:
        step = int(pick(rng, [1, 1, 2, -1, -2, 3]))
        far = int(pick(rng, [8, 8, 2 ** 31 - 1, 2 ** 63 - 1]))
        start, end = int(rng.integers(-7, 8)), int(rng.integers(-7, 8))
        if chance(rng, 0.3):
            end = far if step > 0 else -far
        if chance(rng, 0.2):
            start = -far if step > 0 else far
        starts.append(start), ends.append(end), steps.append(step)
    index_type = pick(rng, [np.int32, np.int64])
    if index_type == np.int32:
        starts, ends = np.clip(starts, -2 ** 31, 2 ** 31 - 1), np.clip(ends, -2 ** 31, 2 ** 31 - 1)
    use_axes = chance(rng, 0.8)
    if not use_axes:
        axes = list(range(len(axes)))
    use_steps = chance(rng, 0.7)
    return both(opset, [data(rng, shape, dtype), np.array(starts, index_type), np.array(ends, index_type), np.array(axes, index_type) if use_axes or use_steps and chance(rng) else None, np.array(steps, index_type) if use_steps else None])


@maker("Gather", count=14)
def gather(rng, index, op):
    opset = version(rng)
    dtype = any_type(rng, op, opset, "data")
    shape = shape_of(rng, 1, 4, zero=0)
    axis = axis_of(rng, len(shape))
    indices = np.asarray(rng.integers(-shape[axis], shape[axis], size=shape_of(rng, 0, 3))).astype(pick(rng, [np.int32, np.int64]))
    return both(opset, [data(rng, shape, dtype), indices], dict(axis=axis if axis or chance(rng) else None))


@maker("GatherElements", count=12)
def gather_elements(rng, index, op):
    opset = version(rng)
    dtype = any_type(rng, op, opset, "data")
    shape = shape_of(rng, 1, 4, zero=0)
    axis = axis_of(rng, len(shape))
    index_shape = [int(rng.integers(1, d + 1)) for d in shape]
    index_shape[axis] = int(rng.integers(0, 5))
    indices = np.asarray(rng.integers(-shape[axis], shape[axis], size=index_shape)).astype(pick(rng, [np.int32, np.int64]))
    return both(opset, [data(rng, shape, dtype), indices], dict(axis=axis if axis or chance(rng) else None))


@maker("GatherND", count=12)
def gather_nd(rng, index, op):
    opset = version(rng)
    dtype = any_type(rng, op, opset, "data")
    shape = shape_of(rng, 1, 4, zero=0)
    batch = int(rng.integers(0, len(shape)))
    depth = int(rng.integers(1, len(shape) - batch + 1))
    lead = [*shape[:batch], *shape_of(rng, 0 if batch else 1, 2, zero=0)]
    indices = np.stack([rng.integers(-shape[batch + d], shape[batch + d], size=lead) for d in range(depth)], -1)
    return both(opset, [data(rng, shape, dtype), indices.astype(np.int64)], dict(batch_dims=batch if batch or chance(rng) else None))


@maker("ScatterElements", count=16)
def scatter_elements(rng, index, op):
    opset = version(rng)
    reduction = pick(rng, [None, None, "none", "add", "mul", "max", "min"])
    if opset < 18 and reduction in ("max", "min") or opset < 16:
        reduction = None
    only = (lambda t: is_number(t)) if reduction not in (None, "none") else plain_type
    dtype = pick(rng, types_of(op, opset, "data", only))
    shape = shape_of(rng, 1, 3, zero=0)
    axis = axis_of(rng, len(shape))
    index_shape = [int(rng.integers(1, d + 1)) for d in shape]
    if reduction in (None, "none"):  # no index twice along the axis
        order = np.argsort(rng.random([shape[a] if a == axis % len(shape) else n for a, n in enumerate(index_shape)]), axis=axis)
        indices = np.take(order, range(index_shape[axis]), axis=axis)
        indices = np.where(rng.random(indices.shape) < 0.3, indices - shape[axis], indices)
    else:
        indices = rng.integers(-shape[axis], shape[axis], size=index_shape)
    return both(opset, [data(rng, shape, dtype, full=0), indices.astype(pick(rng, [np.int32, np.int64])), data(rng, indices.shape, dtype, full=0)], dict(axis=axis, reduction=reduction))


@maker("Scatter", count=6)
def scatter(rng, index, op):
    opset = pick(rng, [9, 10])
    shape = shape_of(rng, 1, 3, zero=0)
    axis = int(rng.integers(len(shape)))
    order = np.argsort(rng.random(shape), axis=axis)
    dtype = pick(rng, types_of(op, opset, "data", plain_type))
    return both(opset, [data(rng, shape, dtype), order.astype(np.int64), data(rng, shape, dtype)], dict(axis=axis), ir=7)


@maker("ScatterND", count=16)
def scatter_nd(rng, index, op):
    opset = version(rng)
    reduction = pick(rng, [None, None, "none", "add", "mul", "max", "min"])
    if opset < 18 and reduction in ("max", "min") or opset < 16:
        reduction = None
    only = is_number if reduction not in (None, "none") else plain_type
    dtype = pick(rng, types_of(op, opset, "data", only))
    shape = shape_of(rng, 1, 4, zero=0)
    depth = int(rng.integers(1, len(shape) + 1))
    places = int(np.prod(shape[:depth]))
    count = int(rng.integers(0, places + 1))
    flat = rng.permutation(places)[:count] if reduction in (None, "none") else rng.integers(0, places, size=count)
    indices = np.stack(np.unravel_index(flat, shape[:depth]), -1).reshape(count, depth)
    negative = rng.random(indices.shape) < 0.2
    indices = np.where(negative, indices - np.array(shape[:depth]), indices)
    if count % 2 == 0 and count and chance(rng):
        indices = indices.reshape(2, count // 2, depth)
    return both(opset, [data(rng, shape, dtype, full=0), indices.astype(np.int64), data(rng, [*indices.shape[:-1], *shape[depth:]], dtype, full=0)], dict(reduction=reduction))


@maker("Transpose", count=10)
def transpose(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 0, 5, 4)
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "data"))], dict(perm=[int(a) for a in rng.permutation(len(shape))] if len(shape) and chance(rng, 0.8) else None))


@maker("Reshape", count=14)
def reshape(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 0, 4, zero=0.1)
    size = int(np.prod(shape))
    target = list(rng.permutation(shape)) if shape else []
    target = [int(d) for d in target]
    allowzero = None
    if opset >= 14 and chance(rng, 0.3):
        allowzero = 1
    if size and target and chance(rng, 0.5):
        target[int(rng.integers(len(target)))] = -1
    elif size and chance(rng, 0.5):
        target = [*target, 1] if chance(rng) else [size]
    if allowzero is None and 0 in target:
        target = [0 if d == 0 else d for d in shape]
        if any(d == 0 and a >= len(shape) for a, d in enumerate(target)):
            return None
    if allowzero is None and size and shape and chance(rng, 0.3):
        target = [0, -1]
        if len(shape) < 2:
            target = [0]
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "data")), i64(target)], dict(allowzero=allowzero))


@maker("Squeeze", count=10)
def squeeze(rng, index, op):
    opset = version(rng)
    shape = [1 if chance(rng, 0.4) else int(rng.integers(0, 5)) for _ in range(int(rng.integers(0, 6)))]
    ones = [a for a, d in enumerate(shape) if d == 1]
    axes = [a - (len(shape) if chance(rng, 0.4) else 0) for a in ones if chance(rng, 0.7)]
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "data")), i64(axes) if axes and chance(rng, 0.8) else None])


@maker("Unsqueeze", count=10)
def unsqueeze(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 0, 3)
    count = int(rng.integers(1, 4))
    rank = len(shape) + count
    axes = [int(a) - (rank if chance(rng, 0.4) else 0) for a in rng.permutation(rank)[:count]]
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "data")), i64(axes)])


@maker("Flatten", count=8)
def flatten(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 0, 4)
    if not shape:
        return both(opset, [data(rng, shape, any_type(rng, op, opset, "input"))], dict(axis=0))
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "input"))], dict(axis=pick(rng, [None, int(rng.integers(-len(shape), len(shape) + 1))])))


@maker("Expand", count=12)
def expand(rng, index, op):
    opset = version(rng)
    a, b = broadcast(rng, 2)
    return both(opset, [data(rng, a, any_type(rng, op, opset, "input")), i64(b)])


@maker("Tile", count=10)
def tile(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 1, 4, 3)
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "input")), i64(rng.integers(0, 4, size=len(shape)) if chance(rng, 0.3) else rng.integers(1, 4, size=len(shape)))])


@maker("Pad", count=20)
def pad(rng, index, op):
    opset = version(rng)
    mode = pick(rng, ["constant", "constant", "reflect", "edge", "wrap"])
    if mode == "wrap" and opset < 19:
        mode = "constant"
    dtype = pick(rng, types_of(op, opset, "data", plain_type))
    shape = shape_of(rng, 1, 4, 4, zero=0 if mode != "constant" else 0.05)
    axes = axes_of(rng, len(shape)) if opset >= 18 and chance(rng) else None
    chosen = range(len(shape)) if axes is None else axes
    low = []
    for side in range(2):
        for axis in chosen:
            most = shape[axis] - 1 if mode == "reflect" else shape[axis] if mode == "wrap" else 3
            low.append(int(rng.integers(0, most + 1)) if most >= 0 else 0)
    if mode == "constant" and chance(rng, 0.4):
        low = [-1 if shape[list(chosen)[i % max(1, len(list(chosen)))]] > 2 and chance(rng, 0.4) else p for i, p in enumerate(low)]
    value = data(rng, (), dtype) if mode == "constant" and chance(rng, 0.7) else None
    inputs = [data(rng, shape, dtype), i64(low), value]
    if axes is not None:
        inputs.append(np.array(axes, pick(rng, [np.int32, np.int64])))
    return both(opset, inputs, dict(mode=mode if mode != "constant" or chance(rng) else None))


@maker("DepthToSpace", "SpaceToDepth", count=8)
def depth(rng, index, op):
    opset = version(rng)
    dtype = any_type(rng, op, opset, "input")
    block = pick(rng, [1, 2, 3])
    n, c, h, w = int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    shape = (n, c * block * block, h, w) if op == "DepthToSpace" else (n, c, h * block, w * block)
    return both(opset, [data(rng, shape, dtype)], dict(blocksize=block, mode=pick(rng, [None, "DCR", "CRD"]) if op == "DepthToSpace" else None))


@maker("ReverseSequence", count=8)
def reverse_sequence(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 2, 4, zero=0)
    batch = int(rng.integers(2))
    lengths = rng.integers(1, shape[1 - batch] + 1, size=shape[batch])
    default = batch == 1 and chance(rng)
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "input")), i64(lengths)], {} if default else dict(batch_axis=batch, time_axis=1 - batch))


@maker("Trilu", count=10)
def trilu(rng, index, op):
    opset = version(rng, 14)
    shape = shape_of(rng, 2, 4)
    return both(opset, [data(rng, shape, pick(rng, types_of(op, opset, "input", plain_type))), np.array(int(rng.integers(-5, 6)), np.int64) if chance(rng, 0.7) else None], dict(upper=pick(rng, [None, 0, 1])))


@maker("EyeLike", count=8)
def eye_like(rng, index, op):
    opset = version(rng)
    target = pick(rng, [None, *types_of(op, opset, "output", lambda t: is_number(t) or t.kind == "b")])
    source = pick(rng, types_of(op, opset, "input", is_number))
    return both(opset, [data(rng, (int(rng.integers(1, 6)), int(rng.integers(1, 6))), source)], dict(k=pick(rng, [None, -2, 1, 3, -7]), dtype=None if target is None else CODES[target.name]))


@maker("OneHot", count=10)
def one_hot(rng, index, op):
    opset = version(rng)
    depth_size = int(rng.integers(1, 6))
    shape = shape_of(rng, 0, 3)
    index_type = pick(rng, types_of(op, opset, "indices", lambda t: is_number(t) and t.name != "bfloat16"))
    low = -depth_size - 1 if index_type.kind != "u" else 0
    indices = np.asarray(rng.integers(low, depth_size + 2, size=shape)).astype(index_type)
    depth_tensor = np.asarray(depth_size).astype(pick(rng, [np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.int32)]))
    if chance(rng):
        depth_tensor = depth_tensor.reshape(1)
    values = data(rng, (2,), pick(rng, types_of(op, opset, "values", plain_type)))
    return both(opset, [indices, depth_tensor, values], dict(axis=pick(rng, [None, int(rng.integers(-len(shape) - 1, len(shape) + 1))])), output_types=[code_of(values)])


@maker("Compress", count=8)
def compress(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 1, 3)
    axis = pick(rng, [None, axis_of(rng, len(shape))])
    size = int(np.prod(shape)) if axis is None else shape[axis]
    return both(opset, [data(rng, shape, any_type(rng, op, opset, "input")), np.asarray(rng.random(int(rng.integers(0, size + 1))) < 0.5)], dict(axis=axis))


@maker("NonZero", count=8)
def non_zero(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "X", lambda t: is_number(t) or t.kind == "b"))
    x = data(rng, shape_of(rng, 1, 4), dtype, full=0)
    return both(opset, [np.where(rng.random(x.shape) < 0.4, np.zeros((), dtype), x).astype(dtype)])


@maker("Unique", count=10)
def unique(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "X", lambda t: (is_number(t) or t.kind == "O") and t.name != "bfloat16"))
    shape = shape_of(rng, 1, 3, 4, zero=0)
    x = np.asarray(rng.integers(0, 4, size=shape)).astype(dtype) if dtype.kind != "O" else data(rng, shape, dtype)
    return both(opset, [x], dict(axis=pick(rng, [None, axis_of(rng, len(shape))]), sorted=pick(rng, [None, 0, 1])), outputs=pick(rng, [1, 2, 3, 4]), needs=("ort",))


@maker("Identity", count=6)
def identity(rng, index, op):
    opset = version(rng)
    return both(opset, [data(rng, shape_of(rng), any_type(rng, op, opset, "input"))])


@maker("Shape", count=8)
def shape_op(rng, index, op):
    opset = version(rng, 15)
    return both(opset, [data(rng, shape_of(rng), any_type(rng, op, opset, "data"))], dict(start=pick(rng, [None, int(rng.integers(-5, 6))]), end=pick(rng, [None, int(rng.integers(-5, 6))])))


@maker("Size", count=5)
def size_op(rng, index, op):
    opset = version(rng)
    return both(opset, [data(rng, shape_of(rng), any_type(rng, op, opset, "data"))])


@maker("Constant", count=10)
def constant(rng, index, op):
    opset = version(rng)
    attrs = pick(rng, [dict(value=tensor_proto(data(rng, shape_of(rng), pick(rng, types_of(op, opset, "output"))))), dict(value_float=1.5), dict(value_int=-7),
                       dict(value_floats=[1.0, -2.5]), dict(value_ints=[3, -4, 2 ** 40]), dict(value_string=b"text"), dict(value_strings=[b"a", b""])])
    return both(opset, [], attrs)


@maker("ConstantOfShape", count=8)
def constant_of_shape(rng, index, op):
    opset = version(rng)
    value = tensor_proto(data(rng, (1,), pick(rng, types_of(op, opset, "output")))) if chance(rng, 0.8) else None
    return both(opset, [i64(shape_of(rng))], dict(value=value))


@maker("Range", count=10)
def range_op(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "start", is_number))
    start, delta = int(rng.integers(-6, 7)), int(pick(rng, [1, 2, 3, -1, -2]))
    stop = start + delta * int(rng.integers(-2, 7)) + int(rng.integers(0, 2))
    scale = 0.5 if is_float(dtype) else 1
    return both(opset, [np.asarray(v * scale).astype(dtype) for v in (start, stop, delta)])


@maker("TensorScatter", count=20)
def tensor_scatter(rng, index, op):
    dtype = any_type(rng, op, 24, "past_cache")
    shape = list(shape_of(rng, 2, 4, 4, zero=0))
    axis = int(rng.integers(1, len(shape)))
    shape[axis] = int(rng.integers(4, 9))  # at least as long as the prefix dimensions: see the note on circular mode
    rows = list(shape)
    rows[axis] = int(rng.integers(1, shape[axis] + 1))
    mode = pick(rng, [None, "linear", "circular", "circular"])
    most = shape[axis] - 1 if mode == "circular" else shape[axis] - rows[axis]
    indices = i64(rng.integers(0, most + 1, size=shape[0])) if chance(rng, 0.8) else None
    attr = axis if chance(rng) else axis - len(shape)
    return both(pick(rng, [24, 25, 26]), [data(rng, shape, dtype), data(rng, rows, dtype), indices], dict(axis=attr if attr != -2 or chance(rng) else None, mode=mode))


# ---- casts --------------------------------------------------------------------------------------------------------------
@maker("Cast", count=60)
def cast(rng, index, op):
    opset = version(rng)
    source = pick(rng, types_of(op, opset, "input", lambda t: t.kind != "O"))
    target = pick(rng, types_of(op, opset, "output", lambda t: t.kind != "O"))
    x = data(rng, shape_of(rng), source, scale=pick(rng, [2.0, 100.0]))
    if (is_integer(target) or target.name in ("int4", "uint4", "int2", "uint2")) and not is_integer(source):
        bits = 8 * target.itemsize if is_integer(target) else int(target.name[-1])
        low = 0 if target.name[0] == "u" else -(2 ** (bits - 1))
        if source.kind != "b" and is_float(source):  # out of range is undefined
            x = np.clip(x.astype(np.float32), max(low, -100), min(low + 2 ** bits - 1, 100)).astype(source)
        elif source.kind != "b" and "float" in source.name:
            x = np.clip(np.nan_to_num(x.astype(np.float32)), max(low, -4), min(low + 2 ** bits - 1, 4)).astype(source)
    if target.name.startswith("float4") or target.name == "float8_e8m0fnu":
        x = np.abs(x.astype(np.float32)).astype(source) if "float" in source.name else x
    saturate = pick(rng, [None, None, 0, 1]) if opset >= 19 else None
    return both(opset, [x], dict(to=CODES["string" if target.kind == "O" else target.name], saturate=saturate))


@maker("CastLike", count=12)
def cast_like(rng, index, op):
    opset = version(rng, 15)
    source = pick(rng, types_of(op, opset, "input", lambda t: is_number(t) or t.kind == "b"))
    target = pick(rng, types_of(op, opset, "output", lambda t: is_number(t) or t.kind == "b"))
    x = data(rng, shape_of(rng), source, full=0)
    if target.kind == "u":
        x = np.abs(x.astype(np.float32)).astype(source)
    return both(opset, [x, data(rng, shape_of(rng, 0, 2), target)])


@maker("BitCast", count=12)
def bit_cast(rng, index, op):
    source = pick(rng, types_of(op, 26, "input", lambda t: is_number(t)))
    same = [t for t in types_of(op, 26, "output", is_number) if t.itemsize == source.itemsize]
    return both(26, [data(rng, shape_of(rng), source)], dict(to=CODES[pick(rng, same).name]), allow_nan=True)


# ---- products -----------------------------------------------------------------------------------------------------------
def matmul_shapes(rng):
    m, k, n = (int(d) for d in rng.integers(1, 6, size=3))
    ranks = pick(rng, [(2, 2), (3, 2), (2, 3), (3, 3), (4, 3), (1, 2), (2, 1), (1, 1), (1, 3), (4, 1)])
    lead = [int(d) for d in rng.integers(1, 4, size=2)]
    left = [k] if ranks[0] == 1 else [d if chance(rng, 0.7) else 1 for d in lead[4 - ranks[0]:]] + [m, k]
    right = [k] if ranks[1] == 1 else [d if chance(rng, 0.7) else 1 for d in lead[4 - ranks[1]:]] + [k, n]
    if chance(rng, 0.06):
        left, right = [*left[:-1], 0], ([0] if len(right) == 1 else [*right[:-2], 0, right[-1]])
    return left, right


@maker("MatMul", count=18)
def matmul(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "A", is_number))
    a, b = matmul_shapes(rng)
    return both(opset, [data(rng, a, dtype, full=0), data(rng, b, dtype, full=0)])


@maker("Gemm", count=16)
def gemm(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "A", is_number))
    m, k, n = (int(d) for d in rng.integers(1, 6, size=3))
    ta, tb = chance(rng), chance(rng)
    c = pick(rng, [None, (), (1,), (n,), (m, 1), (1, n), (m, n)])
    return both(opset, [data(rng, (k, m) if ta else (m, k), dtype, full=0), data(rng, (n, k) if tb else (k, n), dtype, full=0), None if c is None else data(rng, c, dtype, full=0)],
                dict(transA=int(ta), transB=int(tb), alpha=pick(rng, [None, 0.5, 2.0]), beta=pick(rng, [None, 0.0, 2.0, -1.0])))


@maker("MatMulInteger", count=14)
def matmul_integer(rng, index, op):
    opset = version(rng)
    ta, tb = pick(rng, [np.int8, np.uint8]), pick(rng, [np.int8, np.uint8])
    a, b = matmul_shapes(rng)
    if len(a) == 1 or len(b) == 1:
        return None
    a_zero = pick(rng, [None, data(rng, (), ta, full=1), data(rng, (1,), ta, full=1)])
    b_zero = pick(rng, [None, data(rng, (), tb, full=1), data(rng, (b[-1],), tb, full=1)])
    return both(opset, [data(rng, a, ta, full=1), data(rng, b, tb, full=1), a_zero, b_zero])


@maker("QLinearMatMul", count=12)
def qlinear_matmul(rng, index, op):
    opset = pick(rng, [13, 16, 21, 22])
    kind = pick(rng, [np.int8, np.uint8])
    scale_type = F32 if opset < 21 else pick(rng, types_of(op, opset, "a_scale", is_float))
    m, k, n = (int(d) for d in rng.integers(1, 6, size=3))
    scale = lambda s: (rng.integers(1, 9, size=s) / 64).astype(scale_type)
    # A scale of the answer that is no power of two keeps the quotients away from the middle between two integers.
    y_scale = np.asarray(1.37 * k ** 0.5).astype(scale_type)
    columns = chance(rng, 0.4)
    return both(opset, [data(rng, (m, k), kind, full=1), np.asarray(scale(())), data(rng, (), kind, full=0), data(rng, (k, n), kind, full=1), np.asarray(scale((n,) if columns else ())),
                        data(rng, (n,) if columns else (), kind, full=0), y_scale, data(rng, (), kind, full=0)], atol=0, rtol=0, needs=("ort",))


@maker("Einsum", count=16)
def einsum(rng, index, op):
    opset = version(rng)
    dtype = pick(rng, types_of(op, opset, "Inputs", is_number))
    equation, ranks = pick(rng, [("ij->ji", ["ij"]), ("ii->i", ["ii"]), ("ii", ["ii"]), ("ij,jk->ik", ["ij", "jk"]), ("bij,bjk->bik", ["bij", "bjk"]), ("i,j->ij", ["i", "j"]),
                                 ("ij->", ["ij"]), ("ijk->k", ["ijk"]), ("i,i->", ["i", "i"]), ("...ij,...jk->...ik", ["bij", "bjk"]), ("...ii->...i", ["bii"]), ("bhqd,bhkd->bhqk", ["bhqd", "bhkd"]),
                                 ("ij , jk -> ik", ["ij", "jk"]), ("ij,jk,kl->il", ["ij", "jk", "kl"]), ("ba,b", ["ba", "b"]), ("ijj->i", ["ijj"]), ("i...->...", ["ijk"])])
    size = {}
    shapes = [[size.setdefault(c, int(rng.integers(1, 5))) for c in rank] for rank in ranks]
    return both(opset, [data(rng, s, dtype, full=0) for s in shapes], dict(equation=equation))


@maker("Det", count=8)
def det(rng, index, op):
    opset = version(rng)
    n = int(rng.integers(1, 5))
    return both(opset, [data(rng, [*shape_of(rng, 0, 2, 3, zero=0), n, n], pick(rng, types_of(op, opset, "X", lambda t: t.name in ("float32", "float64", "float16"))))], rtol=2e-3, atol=2e-3)


# ---- normalisations -----------------------------------------------------------------------------------------------------
@maker("Softmax", "LogSoftmax", "Hardmax", count=12)
def softmax(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 1, 4)
    return both(opset, [data(rng, shape, pick(rng, types_of(op, opset, "input", is_float)), scale=6.0, step=pick(rng, [16, 50]))], dict(axis=pick(rng, [None, axis_of(rng, len(shape))])))


@maker("LayerNormalization", "RMSNormalization", count=16)
def layer_norm(rng, index, op):
    opset = version(rng, 17 if op[0] == "L" else 23)
    dtype = pick(rng, types_of(op, opset, "X", is_float))
    shape = shape_of(rng, 1, 4, zero=0)
    if shape[-1] == 1:
        shape = (*shape[:-1], 4)
    axis = axis_of(rng, len(shape))
    tail = shape[axis:]
    if chance(rng, 0.3):
        tail = tail[-1:]
    inputs = [data(rng, shape, dtype), data(rng, tail, dtype)]
    if op[0] == "L" and chance(rng):
        inputs.append(data(rng, tail, dtype))
    return both(opset, inputs, dict(axis=axis if axis != -1 or chance(rng) else None, epsilon=pick(rng, [None, 1e-3, 0.1]), stash_type=pick(rng, [None, 1])),
                outputs=pick(rng, [1, 1, 3]) if op[0] == "L" else 1, **({} if dtype.name != "bfloat16" else dict(rtol=5e-2, atol=5e-2)))


@maker("InstanceNormalization", "GroupNormalization", count=10)
def instance_norm(rng, index, op):
    opset = version(rng, 21 if op[0] == "G" else 13)
    dtype = pick(rng, types_of(op, opset, "X" if op[0] == "G" else "input", is_float))
    groups = pick(rng, [1, 2, 3])
    channels = groups * int(rng.integers(1, 3))
    shape = (int(rng.integers(1, 3)), channels, *[int(d) for d in rng.integers(2, 5, size=int(rng.integers(1, 3)))])
    attrs = dict(epsilon=pick(rng, [None, 1e-3]))
    if op[0] == "G":
        attrs.update(num_groups=groups, stash_type=pick(rng, [None, 1]))
    return both(opset, [data(rng, shape, dtype), data(rng, (channels,), dtype), data(rng, (channels,), dtype)], attrs, rtol=6e-2 if dtype.name == "bfloat16" else 1e-5 if dtype.name == "float64" else None)


@maker("LpNormalization", count=8)
def lp_norm(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 1, 4, zero=0)
    x = data(rng, shape, pick(rng, types_of(op, opset, "input", is_float)))
    return both(opset, [(x.astype(np.float32) + np.float32(0.03125)).astype(x.dtype)], dict(axis=pick(rng, [None, axis_of(rng, len(shape))]), p=pick(rng, [None, 1, 2])), needs=("ort",))


@maker("MeanVarianceNormalization", count=6)
def mean_variance(rng, index, op):
    opset = version(rng)
    shape = (3, 4, 3, 2)
    axes = axes_of(rng, 4) or [0]
    return both(opset, [data(rng, shape, pick(rng, types_of(op, opset, "X", lambda t: t.name in ("float32", "float64"))))], dict(axes=axes if chance(rng, 0.6) and len(axes) > 1 else None), rtol=1e-3, atol=1e-3)


# ---- quantisation -------------------------------------------------------------------------------------------------------
def quantized_types(op, opset, name):
    return types_of(op, opset, name, lambda t: is_integer(t) and t.itemsize <= 2 or t.name in ("int4", "uint4", "int2", "uint2") or t.name.startswith("float8_e4m3fn") or t.name.startswith("float8_e5m2"))


def scale_layout(rng, opset, shape):
    """Shape of scale and zero point with the attributes that say so: per tensor, per axis, or blocked."""
    kind = pick(rng, ["tensor", "axis", "block"] if opset >= 21 and len(shape) > 0 else ["tensor", "axis"] if len(shape) else ["tensor"])
    if kind == "tensor":
        return (), {}
    axis = axis_of(rng, len(shape))
    if kind == "axis":
        return (shape[axis],), dict(axis=axis)
    block = int(rng.integers(1, shape[axis] + 1))
    blocks = list(shape)
    blocks[axis] = -(-shape[axis] // block)
    return tuple(blocks), dict(axis=axis, block_size=block)


@maker("QuantizeLinear", count=30)
def quantize(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 1, 3, zero=0)
    layout, attrs = scale_layout(rng, opset, shape)
    dtype = pick(rng, types_of(op, opset, "x", is_float))
    target = pick(rng, quantized_types(op, opset, "y_zero_point" if opset < 19 else "y"))
    scale = (rng.integers(1, 17, size=layout) / 37).astype(dtype)
    zero = data(rng, layout, target, full=0)
    if target.name.startswith("float8"):
        zero = np.zeros(layout, target)
        attrs["saturate"] = pick(rng, [None, 0, 1])
    x = data(rng, shape, dtype, scale=6.0, step=13)
    if chance(rng, 0.25):
        zero = None
        if opset >= 21 and chance(rng):
            attrs["output_dtype"] = CODES[target.name]
    return both(opset, [x, np.asarray(scale), zero], attrs, atol=0, rtol=0)


@maker("DequantizeLinear", count=30)
def dequantize(rng, index, op):
    opset = version(rng)
    shape = shape_of(rng, 1, 3, zero=0)
    layout, attrs = scale_layout(rng, opset, shape)
    source = pick(rng, quantized_types(op, opset, "x"))
    dtype = F32 if opset < 19 else pick(rng, types_of(op, opset, "x_scale", is_float))
    zero = None if chance(rng, 0.3) else np.zeros(layout, source) if source.name.startswith("float8") else data(rng, layout, source, full=0)
    return both(opset, [data(rng, shape, source, full=0.5), np.asarray((rng.integers(1, 17, size=layout) / 32).astype(dtype)), zero], attrs)


@maker("DynamicQuantizeLinear", count=8)
def dynamic_quantize(rng, index, op):
    x = data(rng, shape_of(rng, 1, 3, zero=0), F32, scale=pick(rng, [1.0, 7.0]), step=37)
    if chance(rng, 0.4):
        x = np.abs(x) + np.float32(0.5)
    return both(version(rng), [x], outputs=3)


# ---- attention ----------------------------------------------------------------------------------------------------------
@maker("Attention", count=110)
def attention(rng, index, op):
    opset = pick(rng, [23, 24, 24, 25])
    dtype = pick(rng, [F32, F32, F32, np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)])
    batch, kv_heads = pick(rng, [1, 2]), pick(rng, [1, 2])
    heads = kv_heads * pick(rng, [1, 1, 2, 3])
    length, kv_length = int(rng.integers(1, 5)), int(rng.integers(1, 7))
    head, v_head = pick(rng, [2, 4, 5]), pick(rng, [2, 4, 3])
    four = chance(rng)
    attrs = dict(is_causal=pick(rng, [None, None, 0, 1]), scale=pick(rng, [None, None, 0.25, 1.0]), softcap=pick(rng, [None, None, None, 2.0]))
    def tensor(count, rows, width):
        return data(rng, (batch, count, rows, width) if four else (batch, rows, count * width), dtype)
    if not four:
        attrs.update(q_num_heads=heads, kv_num_heads=kv_heads)
    q, k, v = tensor(heads, length, head), tensor(kv_heads, kv_length, head), tensor(kv_heads, kv_length, v_head)
    past = int(rng.integers(0, 4)) if chance(rng, 0.3) else None
    total = kv_length + (past or 0)
    nonpad = None
    if opset >= 24 and past is None and chance(rng, 0.35):
        least = length if attrs["is_causal"] else 1
        if least > kv_length:
            return None
        nonpad = i64(rng.integers(least, kv_length + 1, size=batch))
    mask = None
    kind = int(rng.integers(0, 6))
    mask_total = total
    if kind < 4:
        if opset >= 24 and chance(rng, 0.2) and total > 1:
            least = 1 if nonpad is None else int(nonpad.max())
            mask_total = int(rng.integers(least, total + 1))  # shorter than the keys: padded
        lead = pick(rng, [[length, mask_total], [1, length, mask_total], [1, heads, length, mask_total], [batch, 1, length, mask_total], [batch, heads, length, mask_total], [1, 1, length, mask_total]])
        if kind < 2:
            mask = np.asarray(rng.random(lead) < 0.7)
            mask[..., 0] = True
        else:
            mask = data(rng, lead, dtype)
    mode = None
    outputs = ["y0"]
    if past is not None:
        outputs = ["y0", "y1", "y2"]
    if chance(rng, 0.3):
        mode = pick(rng, [None, 0, 1, 2, 3])
        if attrs["softcap"] and mode in (None, 0):
            mode = 3  # the reference hands out the capped product for mode 0
        outputs = outputs + ["y3"] if len(outputs) == 3 else ["y0", "", "", "y3"]
        attrs["qk_matmul_output_mode"] = mode
    past_key = data(rng, (batch, kv_heads, past, head), dtype) if past is not None else None
    past_value = data(rng, (batch, kv_heads, past, v_head), dtype) if past is not None else None
    inputs = [q, k, v, mask, past_key, past_value] + ([nonpad] if opset >= 24 else [])
    loose = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}[dtype.name]
    return both(opset, inputs, attrs, outputs=outputs, rtol=loose, atol=loose)


@maker("RotaryEmbedding", count=24)
def rotary(rng, index, op):
    opset = version(rng, 23)
    dtype = pick(rng, types_of(op, opset, "X", is_float))
    batch, heads, length = pick(rng, [1, 2]), pick(rng, [1, 2, 3]), int(rng.integers(1, 5))
    head = pick(rng, [4, 6, 8])
    dim = 2 * int(rng.integers(1, head // 2 + 1)) if chance(rng, 0.4) else 0
    four = chance(rng)
    x = data(rng, (batch, heads, length, head) if four else (batch, length, heads * head), dtype)
    width = (dim or head) // 2
    with_positions = chance(rng, 0.6)
    rows = length + 3
    angle = rng.random((rows, width) if with_positions else (batch, length, width)) * 6.28
    positions = i64(rng.integers(0, rows, size=(batch, length))) if with_positions else None
    attrs = dict(interleaved=pick(rng, [None, 0, 1]), rotary_embedding_dim=dim or None, num_heads=None if four else heads)
    return both(opset, [x, np.cos(angle).astype(np.float32).astype(dtype), np.sin(angle).astype(np.float32).astype(dtype), positions], attrs)


# ---- subgraphs ----------------------------------------------------------------------------------------------------------
def out(name, code, shape=None):
    return helper.make_tensor_value_info(name, code, shape)


@maker("If", count=6)
def if_op(rng, index, op):
    opset = version(rng)
    branches = []
    for sign in (1, -1):
        value = tensor_proto(data(rng, (2, 3), F32))
        branches.append(helper.make_graph([helper.make_node("Constant", [], ["c"], value=value), helper.make_node("Neg" if sign < 0 else "Abs", ["c"], ["o"])], "branch", [], [out("o", 1, [2, 3])]))
    return both(opset, [np.array(chance(rng)) if chance(rng) else np.array([chance(rng)])], dict(then_branch=branches[0], else_branch=branches[1]), output_types=[1])


@maker("Loop", count=8)
def loop(rng, index, op):
    opset = version(rng)
    nodes = [helper.make_node("Add", ["state", "state"], ["next"]), helper.make_node("Identity", ["next"], ["scan"]), helper.make_node("Less", ["i", "limit"], ["go_on"])]
    trips = np.array(int(rng.integers(1, 5)), np.int64) if chance(rng, 0.8) else None
    condition = np.array(True) if chance(rng, 0.7) or trips is None else None
    # Without a condition the body's own is ignored, which onnxruntime does not do: there it never says stop.
    limit = helper.make_tensor("limit", TensorProto.INT64, [], [int(rng.integers(0, 5)) if condition is not None else 100])
    body = helper.make_graph(nodes, "body", [out("i", 7, []), out("go", 9, []), out("state", 1, [2])], [out("go_on", 9, []), out("next", 1, [2]), out("scan", 1, [2])], [limit])
    return both(opset, [trips, condition, data(rng, (2,), F32)], dict(body=body), outputs=2, output_types=[1, 1])


@maker("Scan", count=8)
def scan(rng, index, op):
    opset = version(rng)
    nodes = [helper.make_node("Add", ["state", "row"], ["next"]), helper.make_node("Mul", ["next", "row"], ["scan"])]
    body = helper.make_graph(nodes, "body", [out("state", 1, [3]), out("row", 1, [3])], [out("next", 1, [3]), out("scan", 1, [3])])
    attrs = dict(body=body, num_scan_inputs=1, scan_input_axes=pick(rng, [None, [0]]), scan_input_directions=pick(rng, [None, [1]]), scan_output_directions=pick(rng, [None, [1]]), scan_output_axes=pick(rng, [None, [1], [-1]]))
    return both(opset, [data(rng, (3,), F32), data(rng, (int(rng.integers(1, 5)), 3), F32)], attrs, outputs=2, output_types=[1, 1])


# ---- the newest: the reference alone answers ------------------------------------------------------------------------------
@maker("SwiGLU", count=8)
def swiglu(rng, index, op):
    dtype = pick(rng, types_of(op, 28, "A", is_float))
    shape = shape_of(rng, 1, 3)
    return both(28, [data(rng, shape, dtype), data(rng, shape, dtype)], dict(alpha=pick(rng, [None, 0.5, 1.702])))


@maker("LinearAttention", count=16)
def linear_attention(rng, index, op):
    opset = pick(rng, [27, 28])
    dtype = pick(rng, types_of(op, opset, "query", is_float))
    state_type = dtype if chance(rng) else F32
    batch, length, kv_heads = pick(rng, [1, 2]), int(rng.integers(1, 5)), pick(rng, [1, 2])
    heads = kv_heads * pick(rng, [1, 2])
    d_k, d_v = pick(rng, [2, 3]), pick(rng, [2, 4])
    rule = ["linear", "gated", "delta", "gated_delta"][index % 4]
    query, key, value = (data(rng, (batch, length, width), dtype, 0.75) for width in (heads * d_k, kv_heads * d_k, kv_heads * d_v))
    past = data(rng, (batch, kv_heads, d_k, d_v), state_type) if chance(rng, 0.6) else None
    decay = beta = None
    if "gated" in rule:
        decay = (-np.abs(data(rng, (batch, length, pick(rng, [kv_heads, kv_heads * d_k])), F32))).astype(dtype)
    if "delta" in rule:
        beta = np.abs(data(rng, (batch, length, pick(rng, [1, kv_heads])), F32, 1.0)).astype(dtype)
    attrs = dict(q_num_heads=heads, kv_num_heads=kv_heads, scale=pick(rng, [None, 0.5]), update_rule=rule if rule != "gated_delta" or chance(rng) else None)
    loose = {"float32": 1e-4, "float64": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}[dtype.name]
    return both(opset, [query, key, value, past, decay, beta], attrs, outputs=2, rtol=loose, atol=loose)


@maker("CausalConvWithState", count=12)
def causal_conv(rng, index, op):
    opset = pick(rng, [27, 28])
    dtype = pick(rng, types_of(op, opset, "input", is_float))
    batch, channels, length, kernel = pick(rng, [1, 2]), int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
    inputs = [data(rng, (batch, channels, length), dtype), data(rng, (channels, 1, kernel), dtype), data(rng, (channels,), dtype) if chance(rng) else None,
              data(rng, (batch, channels, kernel - 1), dtype) if chance(rng, 0.6) else None]
    return both(opset, inputs, dict(activation=pick(rng, [None, "none", "silu", "swish"])), outputs=2)


if __name__ == "__main__":
    only = set(sys.argv[2].split(",")) if len(sys.argv) > 2 else None
    for name, (count, make) in MAKERS.items():
        if only is None or name in only:
            corpus.many(name, count, make, attempts=count * 3)
    corpus.save(sys.argv[1] if len(sys.argv) > 1 else "random-ops.tar.gz")
