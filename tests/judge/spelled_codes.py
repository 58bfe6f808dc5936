#!/usr/bin/env python3
"""A network that ONNX Runtime quantized (QDQ), in the spellings of other tools: the same integers, by the same kernels.

usage: spelled_codes.py INFER_OPT INFER_BENCH [NETWORK of `infer-bench zoo`]

Spellings: Identity around every scale, zero point and 8-bit weight, and a Cast to u8 behind each QuantizeLinear; weights
in f32 behind QuantizeLinear; a QuantizeLinear for each reader. `infer-opt run` must give the plain file's bytes, and
`infer-opt inspect --kernels` the same kernels in the same number. Prints the shortest run of each file with one thread, ours and
ONNX Runtime's, for information. Exits 1 when one differs, 77 when there is nothing to judge."""
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

import judging
from judging import np, onnx, ort

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
RUNS = 15


class RandomImages:
    def __init__(self, name, shape):
        self.name, self.shape, self.left = name, shape, 2

    def get_next(self):
        self.left -= 1
        image = np.random.default_rng(self.left + 7).normal(size=self.shape)
        return {self.name: image.astype(np.float32)} if self.left >= 0 else None


def quantize(source, path):
    try:
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    except ImportError as e:
        judging.skip(str(e))
    value = onnx.load(source).graph.input[0]
    shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
    quantize_static(source, path, RandomImages(value.name, shape), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


def with_identities(model):
    nodes, made = [], 0
    constants = {i.name for i in model.graph.initializer}
    for n in model.graph.node:
        if n.op_type in (QUANTIZE, DEQUANTIZE):
            for i, name in enumerate(n.input):
                if name in constants:
                    made += 1
                    n.input[i] = "%s_same%d" % (name, made)
                    nodes.append(onnx.helper.make_node("Identity", [name], [n.input[i]]))
        nodes.append(n)
        if n.op_type == QUANTIZE:
            out = n.output[0]
            n.output[0] = out + "_codes"
            nodes.append(onnx.helper.make_node("Cast", [n.output[0]], [out], to=onnx.TensorProto.UINT8))
    return nodes


def with_float_weights(model):
    """Codes of weights become what they stand for, quantized again by the file."""
    constants = {i.name: i for i in model.graph.initializer}
    nodes = []
    for n in model.graph.node:
        codes = constants.get(n.input[0]) if n.op_type == DEQUANTIZE else None
        if codes is not None and codes.data_type == onnx.TensorProto.INT8:
            q, scale, zero = (onnx.numpy_helper.to_array(constants[name]) for name in n.input)
            axis = next((a.i for a in n.attribute if a.name == "axis"), 1)
            shape = [-1 if i == axis else 1 for i in range(q.ndim)] if scale.ndim else []
            real = (q.astype(np.float32) - zero.astype(np.float32).reshape(shape)) * scale.reshape(shape)
            name = n.input[0] + "_real"
            model.graph.initializer.append(onnx.numpy_helper.from_array(real.astype(np.float32), name))
            quantized = onnx.helper.make_node(QUANTIZE, [name, *n.input[1:]], [name + "_codes"])
            quantized.attribute.extend(n.attribute)
            nodes.append(quantized)
            n.input[0] = name + "_codes"
        nodes.append(n)
    return nodes


def with_pairs(model):
    """Each reader of a DequantizeLinear has a pair of its own."""
    pairs = {n.output[0]: n for n in model.graph.node if n.op_type == DEQUANTIZE}
    quantizers = {n.output[0]: n for n in model.graph.node if n.op_type == QUANTIZE}
    nodes, made = [], 0
    for n in model.graph.node:
        for i, name in enumerate(n.input):
            pair = pairs.get(name)
            first = quantizers.get(pair.input[0]) if pair is not None else None
            if first is None or n.op_type in (QUANTIZE, DEQUANTIZE):
                continue
            made += 1
            n.input[i] = "%s_own%d" % (name, made)
            for old, operand, result in ((first, first.input[0], n.input[i] + "_codes"),
                                         (pair, n.input[i] + "_codes", n.input[i])):
                copy = onnx.helper.make_node(old.op_type, [operand, *old.input[1:]], [result])
                copy.attribute.extend(old.attribute)
                nodes.append(copy)
        nodes.append(n)
    return nodes


SPELLINGS = {"identities and casts": with_identities, "weights in f32": with_float_weights, "a pair each": with_pairs}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %d\n%s" % (" ".join(map(str, command)), done.returncode, done.stderr))
    return done.stdout


def ours(infer_opt, path, folder):
    """The bytes of all outputs, and how many steps run on each kernel and precision."""
    out = os.path.join(folder, "outputs")
    run(infer_opt, "run", path, "--threads", 1, "--seed", 5, "-o", out, "--quiet")
    data = b"".join(open(os.path.join(out, f), "rb").read() for f in sorted(os.listdir(out)))
    steps = json.loads(run(infer_opt, "inspect", path, "--kernels", "--json", "-", "--quiet"))["kernels"]
    return data, collections.Counter((s["kernel"], s["precision"]) for s in steps)


def shortest(infer_bench, path):
    report = json.loads(run(infer_bench, "run", path, "--threads", 1, "--runs", RUNS, "--max-warmup", 1, "--cold", 1,
                            "--json", "-", "--quiet"))
    session = judging.session_of(path, True)
    value = session.get_inputs()[0]
    feeds = {value.name: np.zeros([d if isinstance(d, int) else 1 for d in value.shape], np.float32)}
    theirs = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        session.run(None, feeds)
        theirs.append(1e3 * (time.perf_counter() - begin))
    return min(report["results"][0]["samples_ms"]), min(theirs)


def main():
    infer_opt, infer_bench = sys.argv[1:3]
    network = sys.argv[3] if len(sys.argv) > 3 else "mobilenetv2"
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        raw, fused, plain = (os.path.join(folder, n) for n in ("raw.onnx", "fused.onnx", "plain.onnx"))
        run(infer_bench, "zoo", network, "-o", raw, "--batch", 1, "--quiet")
        run(infer_opt, "fuse", raw, "-o", fused, "--target", "onnx", "--no-verify", "--quiet")
        quantize(fused, plain)
        want, kernels = ours(infer_opt, plain, folder)
        files = {"plain": plain}
        for name, spell in SPELLINGS.items():
            model = onnx.load(plain)
            nodes = spell(model)
            del model.graph.node[:], model.graph.value_info[:]
            model.graph.node.extend(nodes)
            files[name] = os.path.join(folder, name.replace(" ", "_") + ".onnx")
            onnx.save(model, files[name])
            got, its_kernels = ours(infer_opt, files[name], folder)
            same = got == want, its_kernels == kernels
            failed |= not all(same)
            print("%-22s %s integers, %s kernels" % (name, *("the same" if s else "OTHER" for s in same)))
            if not same[1]:
                print("  more: %s, fewer: %s" % (dict(its_kernels - kernels), dict(kernels - its_kernels)))
        for name, path in files.items():
            mine, theirs = shortest(infer_bench, path)
            print("%-22s %.2f ms, ONNX Runtime %s: %.2f ms" % (name, mine, ort.__version__, theirs))
    sys.exit(failed)


if __name__ == "__main__":
    main()
