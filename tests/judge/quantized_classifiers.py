#!/usr/bin/env python3
"""Runs INT8 files that our quantizer wrote in ONNX Runtime.

usage: quantized_classifiers.py QUANT_CLASSIFIERS_TEST [GOOGLETEST OPTION...]
       quantized_classifiers.py --folder FOLDER

The test program quantizes the classifiers of INFER_TEST_DATA and leaves files and answers in a
folder. For each model, on the samples that our runtime saw: top-1 against the f32 answers (drop at
most 1 point, or not significant by the exact McNemar test), top-1 agreement with our runtime's INT8
answers (at least 99 %), and whether ONNX Runtime turned layers into integer kernels. Exits 1 when a
model fails, 77 when there is nothing to judge."""
import collections
import math
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx, ort

MAX_DROP, SIGNIFICANCE, MIN_AGREEMENT = 0.01, 0.05, 0.99
INTEGER = ("QLinear", "QGemm", "MatMulInteger", "DynamicQuantize")


def mcnemar(lost, gained):
    n = lost + gained
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(min(lost, gained) + 1)) / 2**n)


def top1(scores):
    return scores.reshape(len(scores), -1).argmax(1)


def run(path, inputs):
    """Answers, and the operators that ONNX Runtime executes after its own fusions."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
        session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
        optimized = onnx.load(options.optimized_model_filepath)
    name = session.get_inputs()[0].name
    answers = np.stack([session.run(None, {name: x})[0] for x in inputs])
    return answers, collections.Counter(n.op_type for n in optimized.graph.node)


def judge(folder, model):
    stem = os.path.join(folder, model)
    inputs, golden, ours, labels = (np.load(f"{stem}.{part}.npy")
                                    for part in ("inputs", "golden", "int8", "labels"))
    theirs, operators = run(f"{stem}.int8.onnx", inputs)
    labels = labels.reshape(-1)
    right_f32, right_int8 = top1(golden) == labels, top1(theirs) == labels
    lost, gained = int((right_f32 & ~right_int8).sum()), int((~right_f32 & right_int8).sum())
    drop, p = (lost - gained) / len(labels), mcnemar(lost, gained)
    agreement = float((top1(ours) == top1(theirs)).mean())
    distance = float(np.abs(ours - theirs).max() / max(np.abs(golden).max(), 1e-30))
    integer = {k: v for k, v in operators.items() if k.startswith(INTEGER)}
    passed = (drop <= MAX_DROP or p > SIGNIFICANCE) and agreement >= MIN_AGREEMENT and integer
    print(f"{'pass' if passed else 'FAIL'} {model}: f32 {right_f32.mean():.4f}, int8 "
          f"{right_int8.mean():.4f}, lost {lost}, gained {gained}, p {p:.3f}, agreement with our "
          f"runtime {agreement:.4f}, max|d|/max|f32| {distance:.4f}\n     integer "
          f"{dict(sorted(integer.items()))}\n     other "
          f"{ {k: v for k, v in sorted(operators.items()) if k not in integer} }")
    return bool(passed)


def judge_folder(folder):
    files = os.listdir(folder) if os.path.isdir(folder) else []
    models = sorted(f[:-len(".int8.onnx")] for f in files if f.endswith(".int8.onnx"))
    if not models:
        judging.skip("the test program left no files")
    return 0 if all([judge(folder, m) for m in models]) else 1


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") and sys.argv[1] != "--folder":
        sys.exit(__doc__)
    if sys.argv[1] == "--folder":
        return judge_folder(sys.argv[2])
    judging.data_folder()
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(sys.argv[1:], env=dict(os.environ, INFER_TEST_OUTPUT=folder))
        return judge_folder(folder) or made.returncode


if __name__ == "__main__":
    sys.exit(main())
