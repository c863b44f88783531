"""Random single-node cases in ONNX's backend-test layout, for the two scripts beside this file.

A case is one node, its operands and the answer of an oracle: onnxruntime (graph optimisations off) or onnx.reference.
Needs onnx 1.23, onnxruntime 1.30 and numpy. Everything follows from the seed.
"""
import ctypes, gzip, io, json, tarfile, zlib
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, shape_inference

try:
    import ml_dtypes
    BF16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BF16 = None

CODES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
         "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
         "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22,
         "float4_e2m1fn": 23, "float8_e8m0fnu": 24, "uint2": 25, "int2": 26}
# Element types that numpy, and so onnxruntime's Python interface, does not hold: what to pass them through as.
EXOTIC = {16: 1, 17: 1, 18: 1, 19: 1, 20: 1, 21: 2, 22: 3, 23: 1, 24: 1, 25: 2, 26: 3}
TOLERANCE = {10: 5e-3, 16: 3e-2, 11: 1e-7, 1: 1e-4}


def code_of(array):
    kind = "string" if array.dtype.kind in "OUS" else array.dtype.name
    return CODES[kind]


def dtype_of(code):
    return helper.tensor_dtype_to_np_dtype(code)


def plain(array):
    """The array in a type that numpy compares."""
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name in ("bfloat16",) or array.dtype.name.startswith("float8") or array.dtype.name.startswith("float4") else (
        array.astype(np.int8) if array.dtype.name in ("int4", "int2") else array.astype(np.uint8) if array.dtype.name in ("uint4", "uint2") else array)


def tensor_proto(array, name=""):
    array = np.ascontiguousarray(array) if array.ndim else np.asarray(array)
    return numpy_helper.from_array(array, name)


class Corpus:
    def __init__(self, root, seed):
        self.root, self.seed = root, seed
        self.files = {}        # path → bytes
        self.kept, self.failed, self.first, self.dropped, self.reference_only = {}, {}, {}, {}, {}
        self.bytes = 0

    def rng(self, op, index):
        return np.random.default_rng([self.seed, zlib.crc32(op.encode()), index])

    # ---- running a generator function -------------------------------------------------------------------------------
    def many(self, op, count, make, attempts=None):
        """Calls make(rng, index) until `count` cases of the operator are kept; it returns the arguments of `add`."""
        start = self.kept.get(op, 0)
        index = 0
        limit = attempts or count * 4
        while self.kept.get(op, 0) - start < count and index < limit:
            rng = self.rng(op, index + 1000 * start)
            try:
                arguments = make(rng, index)
                if arguments is not None:
                    self.add(op, **arguments)
            except Exception as error:  # a generator's own mistake counts like an oracle's refusal
                self.fail(op, error)
            index += 1

    def fail(self, op, error):
        self.failed[op] = self.failed.get(op, 0) + 1
        self.first.setdefault(op, []).append(f"{type(error).__name__}: {error}".replace("\n", " ")[:260])

    def drop(self, op, reason):
        self.dropped.setdefault(op, []).append(reason[:260])

    # ---- one case ---------------------------------------------------------------------------------------------------
    def add(self, op, inputs, outputs=1, attrs=None, *, domain="", opset=None, ir=None, rtol=None, atol=None, constants=(),
            symbolic=False, oracle="ort", output_types=None, twice=False, allow_nan=False, needs=()):
        """Evaluates and keeps a case. inputs: arrays or None (left out). outputs: a count, or names with "" for left out.
        needs: "ort", "reference": whose answer the case cannot do without."""
        attrs = {k: v for k, v in (attrs or {}).items() if v is not None}
        names = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
        inputs = list(inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        node = helper.make_node(op, [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)], names, domain=domain, **attrs)
        opsets = {"": opset or 22}
        if domain:
            opsets[domain] = 1
        wanted = [n for n in names if n]
        types = output_types or self.infer_types(node, inputs, opsets, names)
        if len(types) != len(wanted):
            raise ValueError(f"no types for outputs {wanted}: {types}")
        ort_error = reference_error = ort = reference = None
        if oracle in ("ort", "both"):
            try:
                perturb(165 if twice else 0)
                ort = self.run_onnxruntime(node, inputs, wanted, types, opsets, constants, arena=not twice)
                if twice:
                    perturb(60)
                    again = self.run_onnxruntime(node, inputs, wanted, types, opsets, constants, arena=False)
                    for position, (a, b) in enumerate(zip(ort, again)):
                        if plain(a).tobytes() != plain(b).tobytes():
                            return self.drop(op, f"output {wanted[position]} differs between two runs: attrs {attrs}")
            except Exception as error:
                ort_error = error
        if oracle in ("reference", "both"):
            try:
                reference = self.run_reference(node, inputs, wanted, types, opsets)
            except Exception as error:
                reference_error = error
        rtol = max([TOLERANCE.get(t, 1e-6) for t in types]) if rtol is None else rtol
        atol = rtol if atol is None else atol
        if ort is None and reference is None or ort is None and "ort" in needs or reference is None and "reference" in needs:
            return self.fail(op, ort_error or reference_error)
        if ort is not None and reference is not None:
            differ = self.difference(ort, reference, rtol, atol)
            if differ:
                shapes = [f"{a.dtype}{list(a.shape)}" if a is not None else None for a in inputs]
                return self.drop(op, f"opset {opsets['']} {attrs} {shapes}: {differ}")
        answer = ort if ort is not None else reference
        if ort is None:
            self.reference_only[op] = self.reference_only.get(op, 0) + 1
        if not allow_nan and any(a.dtype.kind == "f" and np.isnan(a).any() for a in map(plain, answer)):
            return self.drop(op, f"NaN in the answer: attrs {attrs}")
        source = "onnxruntime" if reference is None else "onnx.reference" if ort is None else "both"
        self.write(op, node, inputs, names, wanted, types, answer, opsets, constants, symbolic, rtol, atol, source, ir)

    @staticmethod
    def infer_types(node, inputs, opsets, names):
        graph = helper.make_graph([node], "g", [value_info(f"x{i}", a) for i, a in enumerate(inputs) if a is not None],
                                  [helper.make_empty_tensor_value_info(n) for n in names if n])
        # Inference writes types into value_info only for values that are not outputs, so ask for the outputs themselves.
        inferred = shape_inference.infer_shapes(model_of(graph, opsets))
        types = [o.type.tensor_type.elem_type for o in inferred.graph.output if o.type.tensor_type.elem_type]
        return types or [code_of(inputs[0])] * len([n for n in names if n])

    @staticmethod
    def run_onnxruntime(node, inputs, wanted, types, opsets, constants, arena=True):
        feeds, graph_inputs, initializers, nodes, outs = {}, [], [], [node], []
        for i, array in enumerate(inputs):
            if array is None:
                continue
            if code_of(array) in EXOTIC or i in constants:
                initializers.append(tensor_proto(array, f"x{i}"))
            else:
                feeds[f"x{i}"] = array
                graph_inputs.append(value_info(f"x{i}", array))
        for name, code in zip(wanted, types):
            if code in EXOTIC:
                nodes.append(helper.make_node("Cast", [name], [name + "_plain"], to=EXOTIC[code]))
                outs.append(helper.make_tensor_value_info(name + "_plain", EXOTIC[code], None))
            else:
                outs.append(helper.make_tensor_value_info(name, code, None))
        graph = helper.make_graph(nodes, "g", graph_inputs, outs, initializers)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = arena
        options.enable_mem_pattern = arena
        session = onnxruntime.InferenceSession(model_of(graph, opsets).SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, feeds)
        return [np.asarray(r).astype(dtype_of(c)) if c in EXOTIC else np.asarray(r) for r, c in zip(results, types)]

    @staticmethod
    def run_reference(node, inputs, wanted, types, opsets):
        from onnx.reference import ReferenceEvaluator
        graph = helper.make_graph([node], "g", [value_info(f"x{i}", a) for i, a in enumerate(inputs) if a is not None],
                                  [helper.make_tensor_value_info(n, t, None) for n, t in zip(wanted, types)])
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model_of(graph, opsets)).run(None, {f"x{i}": a for i, a in enumerate(inputs) if a is not None})
        out = []
        for result, code in zip(results, types):
            result = np.asarray(result)
            if code != 8 and code_of(result) != code:
                raise TypeError(f"the reference gave {result.dtype}, the schema says {code}")
            out.append(result)
        return out

    @staticmethod
    def difference(left, right, rtol, atol):
        for position, (a, b) in enumerate(zip(left, right)):
            if a.shape != b.shape:
                return f"output {position}: onnxruntime has shape {a.shape}, the reference {b.shape}"
            a, b = plain(a), plain(b)
            if a.dtype.kind in "fc":
                with np.errstate(all="ignore"):
                    ok = np.isclose(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64), b.astype(np.complex128 if b.dtype.kind == "c" else np.float64), rtol, atol, equal_nan=True)
            else:
                ok = np.asarray(a == b)
            if not ok.all():
                at = tuple(np.argwhere(~ok)[0]) if ok.ndim else ()
                return f"output {position}{list(map(int, at))}: onnxruntime {a[at]!r}, the reference {b[at]!r}"
        return ""

    # ---- writing ----------------------------------------------------------------------------------------------------
    def write(self, op, node, inputs, names, wanted, types, answer, opsets, constants, symbolic, rtol, atol, source, ir):
        index = self.kept.get(op, 0)
        self.kept[op] = index + 1
        prefix = "microsoft_" if node.domain else ""
        name = f"test_{prefix}{op.lower()}_random_{index:03d}"
        graph_inputs, initializers, data = [], [], []
        for i, array in enumerate(inputs):
            if array is None:
                continue
            if i in constants:
                initializers.append(tensor_proto(array, f"x{i}"))
            else:
                graph_inputs.append(value_info(f"x{i}", array, symbolic))
                data.append((f"x{i}", array))
        outs = [helper.make_tensor_value_info(n, t, [f"{n}_{d}" for d in range(a.ndim)] if symbolic else a.shape) for n, t, a in zip(wanted, types, answer)]
        model = model_of(helper.make_graph([node], name, graph_inputs, outs, initializers), opsets, ir)
        folder = f"{self.root}/{name}"
        ops = [f"{node.domain}::{op}" if node.domain else op]
        meta = {"name": name, "rtol": float(rtol), "atol": float(atol), "ops": ops, "opset": opsets, "oracle": source}
        self.put(f"{folder}/model.onnx", model.SerializeToString())
        self.put(f"{folder}/meta.json", json.dumps(meta).encode())
        for i, (n, array) in enumerate(data):
            self.put(f"{folder}/test_data_set_0/input_{i}.pb", tensor_proto(array, n).SerializeToString())
        for i, (n, array) in enumerate(zip(wanted, answer)):
            self.put(f"{folder}/test_data_set_0/output_{i}.pb", tensor_proto(array, n).SerializeToString())

    def put(self, path, data):
        self.files[path] = data
        self.bytes += len(data)

    def save(self, target):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted(self.files):
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(self.files[path]), 0o644
                tar.addfile(info, io.BytesIO(self.files[path]))
        packed = gzip.compress(raw.getvalue(), 9, mtime=0)
        with open(target, "wb") as file:
            file.write(packed)
        self.report(len(packed), target)

    def report(self, size, target):
        for op in sorted(set(self.kept) | set(self.failed) | set(self.dropped)):
            line = f"{op}: {self.kept.get(op, 0)} kept"
            if self.reference_only.get(op):
                line += f" ({self.reference_only[op]} by onnx.reference alone)"
            if self.failed.get(op):
                line += f", {self.failed[op]} failed"
            if self.dropped.get(op):
                line += f", {len(self.dropped[op])} dropped"
            print(line)
            for text in dict.fromkeys(self.first.get(op, [])[:3]):
                print(f"    failed: {text}")
            for text in dict.fromkeys(self.dropped.get(op, [])[:4]):
                print(f"    dropped: {text}")
        print(f"{sum(self.kept.values())} cases of {len(self.kept)} operators, {self.bytes} bytes, {size} packed in {target}")


def value_info(name, array, symbolic=False):
    shape = [f"{name}_{d}" if symbolic else n for d, n in enumerate(array.shape)]
    return helper.make_tensor_value_info(name, code_of(array), shape)


def model_of(graph, opsets, ir=None):
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir or max(10, helper.find_min_ir_version_for(imports, True)))


def perturb(byte):
    """Has the C library fill freshly allocated memory with a byte, so that outputs an oracle leaves unwritten show."""
    try:
        ctypes.CDLL(None).mallopt(-6, byte)
    except (AttributeError, OSError):
        pass  # not glibc: two runs are compared all the same


# ---- small numbers: random, but with few bits, so that the archive stays small ------------------------------------------
def real(rng, shape, dtype=np.float32, scale=2.0, step=64):
    """Multiples of 1/step within ±scale: exact in every float type but the smallest."""
    values = rng.integers(-int(scale * step), int(scale * step) + 1, size=shape) / step
    return np.asarray(values).astype(dtype)


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def chance(rng, p=0.5):
    return bool(rng.random() < p)
