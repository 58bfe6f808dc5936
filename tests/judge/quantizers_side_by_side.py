#!/usr/bin/env python3
"""Quantizes the classifiers of INFER_TEST_DATA with our quantizer, ONNX Runtime's and NNCF's, from
the same calibration samples, and runs every file in ONNX Runtime on the same other samples.

usage: quantizers_side_by_side.py INFER_OPT [--nncf PYTHON] [--recipe NAME] [--calib N] [MODEL...]

PYTHON is an interpreter that has nncf and onnx; without it NNCF is left out. Prints a row per model:
FP32 top-1, and for each quantizer top-1, lost/gained, agreement with FP32. Exits 1 when our drop is
larger than another's by more than chance allows (exact McNemar between the two files, p < 0.05), 77
without data."""
import argparse
import math
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, ort

CIFAR = ("cifar10_dev_images_u8_nhwc.npy", "cifar10_dev_labels.npy")
MNIST = ("mnist_dev_images_u8.npy", "mnist_dev_labels.npy")
IMAGENET = ("imagenet_dev_256x256_u8_nhwc.npy", "imagenet_dev_labels.npy")
SPOKEN = ("fsdd_dev_mfcc_f32.npy", "fsdd_dev_labels33.npy")


def planar(mean, std):
    mean, std = np.array(mean, np.float32), np.array(std, np.float32)
    return lambda x: ((x.astype(np.float32) / 255 - mean) / std).transpose(0, 3, 1, 2)


CIFAR_A = planar([.4914, .4822, .4465], [.2023, .1994, .2010])
CIFAR_B = planar([.4914, .4822, .4465], [.2471, .2435, .2616])
BGR_MEAN = np.array([103.939, 116.779, 123.68], np.float32)
MODELS = {
    "resnet20_cifar": (CIFAR, CIFAR_A),
    "vit_ibp_cifar": (CIFAR, CIFAR_A),
    "cifar_resnet_2b": (CIFAR, CIFAR_B),
    "cifar_sri_resnet_a": (CIFAR, CIFAR_B),
    "winml_cifar": (CIFAR, planar([.5] * 3, [.5] * 3)),
    "mnist_cntk8": (MNIST, lambda x: x.astype(np.float32).reshape(-1, 1, 28, 28)),
    "mnist_fc_256x4": (MNIST, lambda x: (x.astype(np.float32) / 255).reshape(-1, 784, 1)),
    "squeezenet11_fp32":
        (IMAGENET, lambda x: (x[:, 16:240, 16:240, ::-1].astype(np.float32) - BGR_MEAN).transpose(
            0, 3, 1, 2)),
    "matchboxnet_kws": (SPOKEN, lambda x: x),
}

ORT_QUANTIZER = """
import sys, numpy as np, onnx
from onnx import version_converter
from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType,
                                      quantize_static)
from onnxruntime.quantization.shape_inference import quant_pre_process
source, calib, name, target = sys.argv[1:]
class Reader(CalibrationDataReader):
    def __init__(self):
        self.rows = iter(np.load(calib))
    def get_next(self):
        x = next(self.rows, None)
        return None if x is None else {name: x[None]}
model = onnx.load(source)
if model.opset_import[0].version < 13:  # a scale per channel needs it
    onnx.save(version_converter.convert_version(model, 13), target + ".13")
    source = target + ".13"
try:
    quant_pre_process(source, target + ".pre")
    source = target + ".pre"
except Exception as e:
    print("not preprocessed:", e)
quantize_static(source, target, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
"""

NNCF_QUANTIZER = """
import sys, numpy as np, onnx, nncf
from onnx import version_converter
source, calib, name, target = sys.argv[1:]
model = onnx.load(source)
if model.opset_import[0].version < 13:
    model = version_converter.convert_version(model, 13)
rows = np.load(calib)
data = nncf.Dataset([x[None] for x in rows], lambda x: {name: x})
onnx.save(nncf.quantize(model, data, subset_size=len(rows)), target)
"""


def mcnemar(lost, gained):
    n = lost + gained
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(min(lost, gained) + 1)) / 2**n)


def classes(path, rows):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.array([session.run(None, {name: x[None]})[0].reshape(-1).argmax() for x in rows])


def script(python, text, *args):
    done = subprocess.run([python, "-c", text, *args], capture_output=True, text=True,
                          timeout=1200)
    if done.returncode != 0:
        sys.stderr.write(done.stderr[-1500:])
    return done.returncode == 0


def quantize_all(args, model, calib, folder):
    """By quantizer: the path of its file, or None where it failed."""
    name = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()[0].name
    made = {q: os.path.join(folder, q + ".onnx") for q in ("ours", "onnxruntime", "nncf")}
    ours = subprocess.run([args.infer_opt, "quantize", model, "-o", made["ours"], "--opset", "max", "--calib", calib,
                           "--no-verify", "--recipe", args.recipe, "-q"], capture_output=True,
                          text=True)
    if ours.returncode != 0:
        sys.stderr.write(ours.stderr[-1500:])
        made["ours"] = None
    if not script(sys.executable, ORT_QUANTIZER, model, calib, name, made["onnxruntime"]):
        made["onnxruntime"] = None
    if not args.nncf:
        del made["nncf"]
    elif not script(args.nncf, NNCF_QUANTIZER, model, calib, name, made["nncf"]):
        made["nncf"] = None
    return made


def judge(args, model, folder):
    (data, label_file), prepare = MODELS[model]
    base = judging.data_folder()
    rows = prepare(np.load(os.path.join(base, "labelled", data)))
    labels = np.load(os.path.join(base, "labelled", label_file)).reshape(-1)
    order = np.random.default_rng(0).permutation(len(rows))[:2000]
    half = len(order) // 2
    calib = os.path.join(folder, "calib.npy")
    np.save(calib, np.ascontiguousarray(rows[order[:min(half, args.calib)]], np.float32))
    held, right = np.ascontiguousarray(rows[order[half:]], np.float32), labels[order[half:]]
    source = os.path.join(base, "models", model, "model.onnx")
    golden = classes(source, held)
    cells, correct = [], {}
    for quantizer, path in quantize_all(args, source, calib, folder).items():
        if path is None:
            cells.append("failed")
            continue
        try:
            got = classes(path, held)
        except Exception as e:  # the file does not run
            sys.stderr.write(f"{quantizer}: {e}\n"[:500])
            cells.append("does not run")
            continue
        correct[quantizer] = got == right
        lost = int(((golden == right) & (got != right)).sum())
        gained = int(((golden != right) & (got == right)).sum())
        cells.append(f"{100 * correct[quantizer].mean():.1f} ({lost}/{gained}, "
                     f"{100 * (got == golden).mean():.1f})")
    print(f"| {model} | {len(held)} | {100 * (golden == right).mean():.1f} | "
          f"{' | '.join(cells)} |", flush=True)
    if "ours" not in correct:
        return False
    for quantizer, theirs in correct.items():
        worse = int((~correct["ours"] & theirs).sum())
        better = int((correct["ours"] & ~theirs).sum())
        if worse > better and mcnemar(worse, better) < 0.05:
            print(f"FAIL {model}: {quantizer} is right on {worse} that ours loses, wrong on "
                  f"{better}")
            return False
    return True


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"))
    parser.add_argument("infer_opt")
    parser.add_argument("--nncf")
    parser.add_argument("--recipe", default="balanced")
    parser.add_argument("--calib", type=int, default=300)
    parser.add_argument("models", nargs="*")
    args = parser.parse_intermixed_args()
    judging.data_folder()
    print("| model | samples | FP32 | ours (lost/gained, agreement) | ONNX Runtime | NNCF |\n"
          "|---|---|---|---|---|---|")
    passed = True
    for model in args.models or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            passed = judge(args, model, folder) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
