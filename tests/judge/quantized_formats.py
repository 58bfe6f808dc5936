#!/usr/bin/env python3
"""f16, bf16, dynamic INT8, QOperator and the static types of shared models, in ONNX Runtime and here.

usage: quantized_formats.py INFER_OPT [MODEL...]

Each file that `infer-opt quantize` writes must load in ONNX Runtime (bf16: refused by its CPU
kernels, so only here), keep the SQNR of its type against the f32 model there (with its own rewrites)
and on both our backends, and be as small as the type says. QOperator files must say what the QDQ
file says. Prints one line per file. Exits 1 when one fails, 77 when there is nothing to judge."""
import collections
import json
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx, ort

# Left out: ONNX Runtime 1.30 crashes while it rewrites this file (it loads without rewrites), and a
# detector whose scores dynamic convolutions lose (5 dB in ONNX Runtime and here; docs).
LEFT_OUT = {("nnsplit_en", "fp16"), ("yunet_n_320", "dynamic")}
FLOATS = ["resnet20_cifar", "yunet_n_320", "vit_ibp_cifar", "stories260k_a", "dtln_1", "nnsplit_en"]
CIFAR = ["--data", "cifar10_dev_images_u8_nhwc.npy", "--preprocess",
         "layout=nchw,scale=1/255,mean=.4914:.4822:.4465,std=.2023:.1994:.2010"]
STATIC = {"resnet20_cifar": CIFAR, "vit_ibp_cifar": CIFAR,
          "matchboxnet_kws": ["--data", "fsdd_dev_mfcc_f32.npy"]}
# name: options, least SQNR in dB, largest share of the f32 file's bytes (small models have a larger
# share of names and nodes), in ONNX Runtime
FORMATS = {
    "fp16": (["--mode", "fp16"], 35, 0.60, True),
    "bf16": (["--mode", "bf16"], 15, 0.60, False),
    "dynamic": (["--mode", "dynamic", "--target", "ort", "--dynamic-conv", "on"], 15, 0.50, True),
}
TYPES = {
    "qdq": ([], 12, 0.5, True),
    "qoperator": (["--format", "qoperator"], 12, 0.45, True),
    "u16": (["--activations", "u16"], 12, 0.5, True),
    "s16": (["--activations", "s16", "--symmetric-activations"], 12, 0.5, True),
    "u8-weights": (["--weights", "u8"], 12, 0.5, True),
}
MAX_QOPERATOR_LOSS = 2  # dB below the QDQ file


def sqnr(want, got):
    want, got = (np.asarray(x, np.float64).ravel() for x in (want, got))
    noise = ((want - got) ** 2).sum()
    return float("inf") if noise == 0 else 10 * np.log10(max((want**2).sum(), 1e-300) / noise)


def in_onnxruntime(folder, golden, path):
    """The least SQNR of float outputs over the stored inputs, and the operators that run."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = path + ".optimized"
    candidate = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    operators = collections.Counter(
        n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node)
    outputs = [o.name for o in golden.get_outputs() if o.type == "tensor(float)"]
    worst = []
    for data_set in judging.data_sets(folder)[:2]:
        feeds = judging.load_inputs(data_set, golden)
        pairs = zip(golden.run(outputs, feeds), candidate.run(outputs, feeds))
        worst.append(min(sqnr(w, g) for w, g in pairs))
    # One sample says little of a mean over noise: the best of the sets.
    return max(worst), operators


def judge(tool, root, model, name, spec, data, workspace, golden, least):
    options, db, share, loads = spec
    folder = os.path.join(root, "models", model)
    source, path = os.path.join(folder, "model.onnx"), os.path.join(workspace, f"{model}.{name}.onnx")
    made = subprocess.run([tool, "quantize", source, "-o", path, "--opset", "max", "--quiet", *options, *data],
                          capture_output=True, text=True, timeout=500)
    if made.returncode:
        print(f"FAIL {model} {name}: {made.stderr.strip()[-300:]}")
        return False, None
    size = os.path.getsize(path) / os.path.getsize(source)
    notes, passed, there = [], size <= share, None
    if loads:
        there, operators = in_onnxruntime(folder, golden, path)
        common = ", ".join(f"{n} {op}" for op, n in operators.most_common(6))
        notes.append(f"ONNX Runtime {there:.1f} dB ({common})")
        passed = passed and there >= max(db, least)
    for device in ("cpu", "reference"):
        # The measured figure is judged: a gate would also ask for an interval, and sets are few.
        told = path + ".told.json"
        done = subprocess.run([tool, "compare", path, "--reference", folder, "--device", device,
                               "--quiet", "--json", told], capture_output=True, text=True,
                              timeout=500)
        if done.returncode > 1:  # 1: a default gate for equal models
            notes.append(f"{device} fails: " + (done.stdout + done.stderr).strip()[-400:])
            passed = False
            continue
        with open(told) as f:
            outputs = json.load(f)["accuracy"]["outputs"]
        here = min(float(o["sqnr_db"]) for o in outputs if "sqnr_db" in o)
        notes.append(f"{device} {here:.1f} dB")
        passed = passed and here >= db
    print(f"{'pass' if passed else 'FAIL'} {model} {name}: {size:.3f} of the bytes, " +
          "; ".join(notes), flush=True)
    return passed, there


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    tool, only, root = sys.argv[1], sys.argv[2:], judging.data_folder()
    good, judged = True, 0
    with tempfile.TemporaryDirectory() as workspace:
        for model in sorted(set(FLOATS) | set(STATIC)):
            source = os.path.join(root, "models", model, "model.onnx")
            if only and model not in only or not os.path.exists(source):
                continue
            golden = judging.session_of(source, False)
            data = [os.path.join(root, "labelled", d) if d.endswith(".npy") else d
                    for d in STATIC.get(model, [])] + ["--samples", "64", "--recipe", "none"]
            rows = {k: (v, []) for k, v in FORMATS.items()
                    if model in FLOATS and (model, k) not in LEFT_OUT}
            rows |= {k: (v, data) for k, v in TYPES.items() if model in STATIC}
            if judging.ort_saturates():  # 7 bits, as --target ort writes
                for k in ("qdq", "qoperator"):
                    if k in rows:
                        rows[k] = (([*rows[k][0][0], "--reduce-range"], *rows[k][0][1:]), rows[k][1])
            qdq = 0.0
            for name, (spec, given) in rows.items():
                least = qdq - MAX_QOPERATOR_LOSS if name == "qoperator" else 0
                passed, there = judge(tool, root, model, name, spec, given, workspace, golden, least)
                qdq = there if name == "qdq" and there else qdq
                good, judged = good and passed, judged + 1
    if not judged:
        judging.skip("none of the models is there")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
