#!/usr/bin/env python3
"""Runs weight-only files that our quantizer wrote in ONNX Runtime.

usage: weight_only.py INFER_OPT [--every N] [MODEL...]

Each shared model is quantized to every form that it can take: 2, 4 and 8 bits, symmetric and not,
blocks and whole outputs, MatMulNBits and blocked DequantizeLinear. ONNX Runtime, with its own
rewrites, our cpu backend and our reference backend must give the same outputs for stored inputs.
ONNX Runtime must also run the products as MatMulNBits, not as a DequantizeLinear and a MatMul, where
the file has a form of which it says so, and must have folded the weights of convolutions and LSTM
when it loaded the file. Exits 1 when one fails, 77 when there is nothing to judge."""
import collections
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx, ort

MODELS = ["stories260k_a", "bert_toy", "vit_ibp_cifar", "lstm_hive", "resnet20_cifar",
          "mnist_fc_256x4"]
FORMS = {
    "int4": ["--bits", "4", "--block", "64"],
    "int4 asymmetric": ["--bits", "4", "--block", "32", "--asymmetric"],
    "int2": ["--bits", "2", "--block", "16"],
    "int2 asymmetric": ["--bits", "2", "--block", "32", "--asymmetric"],
    "int8": ["--bits", "8", "--block", "128"],
    "int8 asymmetric": ["--bits", "8", "--block", "32", "--asymmetric"],
    "int4 tables int8": ["--bits", "4", "--block", "32", "--embeddings", "int8"],
    "qdq int4": ["--format", "qdq", "--bits", "4", "--block", "64"],
    "qdq int4 asymmetric": ["--format", "qdq", "--bits", "4", "--block", "32", "--asymmetric"],
    "qdq int8": ["--format", "qdq", "--bits", "8", "--block", "32"],
    "qdq int8 asymmetric": ["--format", "qdq", "--bits", "8", "--block", "32", "--asymmetric"],
    "qdq int4 per output": ["--format", "qdq", "--bits", "4", "--block", "0"],
    "qdq int8 per output": ["--format", "qdq", "--bits", "8", "--block", "0"],
}
TOLERANCE = 2e-4  # of the largest output: sums in another order, through the layers of a model


def execute(arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def session(path):
    """With ONNX Runtime's own rewrites, and activations in f32, as our file asks for."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "0")
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
        made = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
        optimized = onnx.load(options.optimized_model_filepath)
    constants = {t.name for t in optimized.graph.initializer}
    computed = [n.name for n in optimized.graph.node
                if n.op_type.endswith(("Conv", "LSTM")) and n.input[1] not in constants]
    return made, collections.Counter(n.op_type for n in optimized.graph.node), computed


def ours(infer_opt, path, feeds, device, folder):
    out = os.path.join(folder, device)
    arguments = [infer_opt, "run", path, "--device", device, "-o", out, "-q"]
    for i, (name, value) in enumerate(feeds.items()):
        file = os.path.join(folder, f"input{i}.npy")
        np.save(file, value)
        arguments += ["-i", f"{name}={file}"]
    code, said = execute(arguments)
    if code:
        raise RuntimeError(f"{device}: {said}")
    return out


def distance(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    if a.shape != b.shape:
        return np.inf
    both = np.isfinite(a) & np.isfinite(b)
    if (np.isfinite(a) != np.isfinite(b)).any():
        return np.inf
    return float(np.abs(a - b)[both].max(initial=0) / max(np.abs(a[both]).max(initial=0), 1e-30))


def judge(infer_opt, model, path, form, options, folder):
    written = os.path.join(folder, "quantized.onnx")
    code, said = execute([infer_opt, "quantize", path, "-o", written, "--opset", "max", "--mode", "weight-only",
                          *options, "-q"])
    if code:
        print(f"FAIL {model}, {form}: exit {code}: {said}")
        return False
    before = collections.Counter(n.op_type for n in onnx.load(written).graph.node)
    try:
        made, after, computed = session(written)
    except Exception as error:  # ONNX Runtime throws types of its own
        print(f"FAIL {model}, {form}: ONNX Runtime: {error}")
        return False
    feeds = judging.load_inputs(judging.data_sets(os.path.dirname(path))[0], made)
    theirs = made.run(None, feeds)
    worst = {}
    for device in ("cpu", "reference"):
        out = ours(infer_opt, written, feeds, device, folder)
        worst[device] = max(
            distance(expected, np.load(os.path.join(out, f)))
            for expected, f in zip(theirs, files_of(out, made)))
    products = before["MatMulNBits"], after["MatMulNBits"]
    passed = max(worst.values()) <= TOLERANCE and products[1] >= products[0] and not computed
    size = os.path.getsize(written) / os.path.getsize(path)
    late = f", weights made in every run: {computed}" if computed else ""
    print(f"{'pass' if passed else 'FAIL'} {model}, {form}: {size:.3f} of the size; from ONNX "
          f"Runtime: cpu {worst['cpu']:.1e}, reference {worst['reference']:.1e}; "
          f"MatMulNBits {products[0]} -> {products[1]}, DequantizeLinear "
          f"{before['DequantizeLinear']} -> {after['DequantizeLinear']}, GatherBlockQuantized "
          f"{after['GatherBlockQuantized']}{late}", flush=True)
    return passed


def files_of(folder, made):
    return [file_name(folder, o.name) for o in made.get_outputs()]


def file_name(folder, output):
    wanted = output + ".npy"
    return wanted if os.path.exists(os.path.join(folder, wanted)) else sorted(os.listdir(folder))[0]


def main():
    step = judging.step_of_arguments()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    models = os.path.join(judging.data_folder(), "models")
    passed = True
    for model in sys.argv[2:] or MODELS[::step]:
        path = os.path.join(models, model, "model.onnx")
        for form, options in FORMS.items():
            with tempfile.TemporaryDirectory() as folder:
                passed &= judge(sys.argv[1], model, path, form, options, folder)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
