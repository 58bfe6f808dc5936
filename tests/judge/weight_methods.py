#!/usr/bin/env python3
"""Rounding of weights by calibration data, ours against ONNX Runtime's own.

usage: weight_methods.py INFER_OPT [MODEL...]

Shared trained transformers get weights of 4 bits in blocks: by `infer-opt quantize --mode
weight-only` with each --method, and by ONNX Runtime's MatMulNBitsQuantizer (round to nearest,
k-quant and GPTQ; its HQQ where torch is installed), on the same products (MatMul), the same
calibration data and the same blocks. ONNX Runtime runs every file on the same evaluation data,
which no method has seen, and the error is that of output 0 relative to the f32 model. gptq and auto
must err at most 0.8 times as much as our round to nearest on models with real data; no method that
knows data may err more than it on any; auto must not err more than the best of theirs. Labelled
models may lose at most 1 point of top-1, or not significantly more (McNemar). Exits 1 when one
fails, 77 when there is nothing to judge."""
import contextlib
import importlib.machinery
import importlib.util
import io
import logging
import os
import subprocess
import sys
import tempfile
import time
import types

import judging
import model_data
from judging import np, onnx, ort
from quantized_classifiers import mcnemar

try:
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits
    from onnxruntime.quantization.calibrate import CalibrationDataReader
except ImportError as e:
    judging.skip(str(e))

RATIO, MAX_DROP, SIGNIFICANCE = 0.8, 0.01, 0.05
THEIR_GPTQ_SAMPLES = 64  # it keeps all inputs of a layer; more take very long
HAS_TORCH = importlib.util.find_spec("torch") is not None


def stand_in_for_torch():
    """Their GPTQ imports torch to see whether a value is one of its tensors; none is."""
    if HAS_TORCH:
        return
    torch = types.ModuleType("torch")
    torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    torch.Tensor = type("Tensor", (), {})
    torch.bfloat16, torch.chalf = object(), object()
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    sys.modules["torch"] = torch


def session(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, ["CPUExecutionProvider"])


def stories(path, _):
    write = model_data.sampled_stories
    return write(path, 64, 96, 1), write(path, 64, 96, 2), None


def images(_, data):
    x = np.load(os.path.join(data, "labelled/cifar10_dev_images_u8_nhwc.npy"))
    x = (x / np.float32(255) - [.4914, .4822, .4465]) / [.2023, .1994, .2010]
    x = x.transpose(0, 3, 1, 2).astype(np.float32)
    labels = np.load(os.path.join(data, "labelled/cifar10_dev_labels.npy")).reshape(-1)
    order = np.random.default_rng(1).permutation(len(x))
    fit, judge = order[:400], order[400:]
    return {"input": x[fit]}, {"input": x[judge]}, labels[judge]


def files(_, __):
    rows = model_data.source_files()
    return {"bytes": rows[:720]}, {"bytes": rows[720:920]}, None


def noise(_, __):
    """As in its stored data sets."""
    x = np.random.default_rng(1).standard_normal((6, 5000)).astype(np.float32)
    return {"input": x[:4]}, {"input": x[4:]}, None


# Name -> data, whether they are of the kind that the model is for, blocks.
MODELS = {
    "vit_ibp_cifar": (images, True, (64, 32)),
    "stories260k_a": (stories, True, (64, 32)),
    "magika_v2_1": (files, False, (64,)),
    "protocol_transformer": (noise, False, (64,)),
}
OURS = ("nearest", "mse", "hqq", "gptq", "awq", "auto")
BY_DATA = ("gptq", "awq", "auto")


def feeds_of(data):
    count = len(next(iter(data.values())))
    return [{k: v[i:i + 1] for k, v in data.items()} for i in range(count)]


class Reader(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds, self.at = feeds, 0

    def get_next(self):
        self.at += 1
        return self.feeds[self.at - 1] if self.at <= len(self.feeds) else None

    def rewind(self):
        self.at = 0


def their_methods(block, calibration):
    feeds = feeds_of(calibration)[:THEIR_GPTQ_SAMPLES]

    def gptq_config(actorder):
        return nbits.GPTQWeightOnlyQuantConfig(calibration_data_reader=Reader(feeds),
                                               block_size=block, actorder=actorder)

    methods = {
        "RTN": lambda: nbits.DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=True,
                                                          accuracy_level=0),
        "k-quant": nbits.KQuantWeightOnlyQuantConfig,
        "GPTQ": lambda: gptq_config(False),
        "GPTQ actorder": lambda: gptq_config(True),
    }
    if HAS_TORCH:
        methods["HQQ"] = lambda: nbits.HQQWeightOnlyQuantConfig(block_size=block)
    return methods


def theirs(path, block, config, out):
    """Writes their file; a line that says why not, where it does not run."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            quantizer = nbits.MatMulNBitsQuantizer(onnx.load(path), 4, block, True, accuracy_level=0,
                                                   algo_config=config())
            quantizer.process()
            onnx.save(quantizer.model.model, out)
        except Exception as e:  # noqa: BLE001  whatever it raises, it did not run
            return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:90]
    return ""


def ours(infer_opt, path, block, method, folder, out):
    arguments = [infer_opt, "quantize", path, "-o", out, "--opset", "max", "--mode", "weight-only", "--bits", "4",
                 "--block", str(block), "--method", method, "--include", "op:MatMul",
                 "--embeddings", "off", "--no-verify", "-q"]
    if method in BY_DATA:
        arguments += ["--calib", os.path.join(folder, "calib.npz")]
    done = subprocess.run(arguments, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()


def answers(path, feeds):
    model = session(path)
    return np.concatenate([model.run(None, f)[0].reshape(-1) for f in feeds])


def judge(infer_opt, name, folder):
    data, real, blocks = MODELS[name]
    path = os.path.join(judging.data_folder(), "models", name, "model.onnx")
    calibration, evaluation, labels = data(path, judging.data_folder())
    np.savez(os.path.join(folder, "calib.npz"), **calibration)
    feeds = feeds_of(evaluation)
    golden = answers(path, feeds)
    passed = True
    for block in blocks:
        errors = {}
        runs = [(m, lambda out, m=m: ours(infer_opt, path, block, m, folder, out)) for m in OURS]
        runs += [(f"ORT {m}", lambda out, c=c: theirs(path, block, c, out))
                 for m, c in their_methods(block, calibration).items()]
        for method, make in runs:
            out = os.path.join(folder, "quantized.onnx")
            start = time.monotonic()
            why = make(out)
            seconds = time.monotonic() - start
            if why:
                print(f"     {name} {block} {method}: did not run ({why})")
                passed &= method.startswith("ORT")
                continue
            given = answers(out, feeds)
            errors[method] = float(np.linalg.norm(given - golden) / np.linalg.norm(golden))
            line = f"     {name} {block} {method}: error {errors[method]:.4f}, {seconds:.1f} s"
            if labels is not None:
                f32, int4 = (a.reshape(len(labels), -1).argmax(1) == labels for a in (golden, given))
                lost, gained = int((f32 & ~int4).sum()), int((~f32 & int4).sum())
                drop, p = (lost - gained) / len(labels), mcnemar(lost, gained)
                line += f", top-1 {f32.mean():.4f} -> {int4.mean():.4f} ({lost}/{gained}, p {p:.2f})"
                if method in ("gptq", "auto"):
                    passed &= drop <= MAX_DROP or p > SIGNIFICANCE
            print(line, flush=True)
        ratios = {m: errors[m] / errors["nearest"] for m in BY_DATA if m in errors}
        peer = min((e for m, e in errors.items() if m.startswith("ORT")), default=np.inf)
        good = len(ratios) == len(BY_DATA) and max(ratios.values()) <= 1
        good &= not real or max(ratios["gptq"], ratios["auto"]) <= RATIO
        good &= errors["auto"] <= peer
        print(f"{'pass' if good else 'FAIL'} {name} {block}: of nearest "
              + ", ".join(f"{m} {r:.2f}" for m, r in ratios.items())
              + f"; auto of the best of theirs {errors['auto'] / peer:.2f}", flush=True)
        passed &= good
    return passed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    logging.disable(logging.INFO)
    stand_in_for_torch()
    verdicts = []
    for name in sys.argv[2:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            verdicts.append(judge(sys.argv[1], name, folder))
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
