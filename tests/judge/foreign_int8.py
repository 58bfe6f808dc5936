#!/usr/bin/env python3
"""INT8 files that ONNX Runtime's quantize_static wrote: `fuse` passes its gate, no operator on codes runs on a reference
kernel, and the outputs are ONNX Runtime's.

usage: foreign_int8.py INFER_OPT [--infer-bench INFER_BENCH] [--folder FOLDER] [--settings NAMES] [MODEL...]

MODEL: a name of INFER_TEST_DATA, of `infer-bench zoo`, or a file. FOLDER keeps the quantized files. With INFER_BENCH the times
of both runtimes on one thread are printed, for information. Per file: fuse's verdict and what it said of codes, steps on
reference kernels, and how far the outputs are from ONNX Runtime's. Exits 1 where fuse fails, such an operator runs on a
reference kernel or ONNX Runtime's outputs are far off: below 20 dB, or, where ONNX Runtime with all of its graph optimisations
is further than that from itself without them, below that. 77 when there is nothing to judge."""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx, ort

LEAST_DB = 20
MODELS = ["resnet20_cifar", "squeezenet11_fp32", "ultraface_rfb320_simplified", "ocr_angle", "ocr_dbnet", "tinyyolo_vnn",
          "yunet_n_320"]
ON_CODES = ("QLinear", "QGemm", "MatMulInteger", "ConvInteger", "DynamicQuantize")
#  name: (format, activations, weights, symmetric activations, per channel)
SETTINGS = {
    "qdq": ("QDQ", "QUInt8", "QInt8", False, True),
    "qdq-tensor": ("QDQ", "QUInt8", "QUInt8", False, False),
    "qdq-symmetric": ("QDQ", "QInt8", "QInt8", True, True),
    "qoperator": ("QOperator", "QUInt8", "QInt8", False, True),
    "qoperator-tensor": ("QOperator", "QUInt8", "QUInt8", False, False),
    "qoperator-symmetric": ("QOperator", "QInt8", "QInt8", True, False),
}


class Inputs:
    """What the model's authors stored, else random numbers."""

    def __init__(self, path, count=4):
        session = judging.session_of(path, False)
        self.feeds = []
        folder = os.path.dirname(path)
        for data_set in judging.data_sets(folder)[:count]:
            self.feeds.append(judging.load_inputs(data_set, session))
        rng = np.random.default_rng(7)
        while not self.feeds or len(self.feeds) < 2:
            self.feeds.append({i.name: rng.normal(size=[d if isinstance(d, int) else 1 for d in i.shape]).astype(np.float32)
                               for i in session.get_inputs()})
        self.rewind()

    def rewind(self):
        self.left = list(self.feeds)

    def get_next(self):
        return self.left.pop(0) if self.left else None


def quantize(source, path, setting, inputs):
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    form, activations, weights, symmetric, per_channel = SETTINGS[setting]
    model = onnx.load(source)
    if model.opset_import[0].version < 13:
        model = onnx.version_converter.convert_version(model, 13)
    prepared = path + ".prepared"
    onnx.save(model, prepared)
    try:
        quant_pre_process(prepared, prepared, skip_symbolic_shape=True)
    except Exception as e:  # it is advice, and refuses some models
        print("  not preprocessed: %s" % str(e).splitlines()[0])
    inputs.rewind()
    quantize_static(prepared, path, inputs, quant_format=getattr(QuantFormat, form), per_channel=per_channel,
                    activation_type=getattr(QuantType, activations), weight_type=getattr(QuantType, weights),
                    reduce_range=weights == "QInt8" and judging.ort_saturates(),
                    extra_options={"ActivationSymmetric": symmetric})
    os.remove(prepared)


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def fused(infer_opt, path, folder):
    code, out, err = run(infer_opt, "fuse", path, "-o", os.path.join(folder, "fused.onnx"), "--json", os.path.join(folder, "f.json"))
    if code not in (0, 1):
        return False, err.strip().splitlines()[-1:]
    report = json.load(open(os.path.join(folder, "f.json")))
    said = ["%s %s %.2g" % (g["name"], "ok" if g["passed"] else "FAILED", float(g["measured"]))
            for g in report["gates"] if not g["passed"] or "codes" in report]
    if "codes" in report:
        c = report["codes"]
        said.append("%d of %d codes moved" % (c["moved"], c["codes"]))
    return code == 0, said


def reference_steps(infer_opt, path):
    code, out, err = run(infer_opt, "inspect", path, "--kernels", "--json", "-", "--quiet")
    if code:
        sys.exit("%s: %s" % (path, err))
    steps = json.loads(out)["kernels"]
    return collections.Counter(s["op"] for s in steps if s["kernel"] == "reference" and
                               s["op"].removeprefix("com.microsoft::").startswith(ON_CODES))


def difference(infer_opt, path):
    """(SQNR in dB of the worst output, max|d| / max|ref|) of ours against ONNX Runtime's, on random inputs."""
    code, out, err = run(infer_opt, "compare", path, "--against", "ort", "--python", sys.executable, "--json", "-", "--quiet")
    if code not in (0, 1):
        return -np.inf, err.strip().splitlines()[-1:]
    outputs = json.loads(out)["accuracy"]["outputs"]
    number = lambda v: float(v) if v is not None else np.nan
    return min(number(o["sqnr_db"]) for o in outputs), max(number(o["max_error_ratio"]) for o in outputs)


def own_difference(path, inputs):
    """SQNR in dB of ONNX Runtime's worst output with all graph optimisations against the same without any: a file whose codes
    lie on the borders of rounding defines its outputs no better than that."""
    sessions = [judging.session_of(path, optimised) for optimised in (False, True)]
    worst = np.inf
    for feed in inputs.feeds:
        for reference, other in zip(*(s.run(None, feed) for s in sessions)):
            noise = np.square(other.astype(np.float64) - reference).sum()
            if noise > 0:
                worst = min(worst, 10 * np.log10(np.square(reference.astype(np.float64)).sum() / noise))
    return worst


def times(infer_bench, path):
    code, out, err = run(infer_bench, "peers", path, "--threads", 1, "--engines", "ort", "--python", sys.executable)
    return "\n".join("    " + line for line in (out or err).strip().splitlines()[-6:])


def source_of(model, args, folder):
    if os.path.exists(model):
        return model
    path = os.path.join(judging.data_folder(), "models", model, "model.onnx")
    if os.path.exists(path):
        return path
    made = os.path.join(folder, "zoo_" + model, "model.onnx")
    if not os.path.exists(made):
        os.makedirs(os.path.dirname(made), exist_ok=True)
        raw = made + ".raw"
        run(args.infer_bench, "zoo", model, "-o", raw, "--batch", 1, "--quiet")
        run(args.infer_opt, "fuse", raw, "-o", made, "--no-verify", "--quiet")
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("infer_opt")
    parser.add_argument("--infer-bench")
    parser.add_argument("--folder")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("models", nargs="*", default=MODELS)
    args = parser.parse_intermixed_args()
    try:
        import onnxruntime.quantization  # noqa: F401
    except ImportError as e:
        judging.skip(str(e))
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or scratch
        for model in args.models:
            source = source_of(model, args, folder)
            inputs = Inputs(source)
            for setting in args.settings.split(","):
                path = os.path.join(folder, "%s.%s.onnx" % (os.path.basename(os.path.dirname(source)), setting))
                if not os.path.exists(path):
                    try:
                        quantize(source, path, setting, inputs)
                    except Exception as e:
                        print("%-28s %-20s not quantized: %s" % (model, setting, str(e).splitlines()[:1]))
                        continue
                ok, said = fused(args.infer_opt, path, scratch)
                left = reference_steps(args.infer_opt, path)
                db, worst = difference(args.infer_opt, path)
                own = own_difference(path, inputs) if db < LEAST_DB else np.inf
                failed |= not ok or bool(left) or db < min(LEAST_DB, own)
                print("%-28s %-20s fuse %s %s; reference %s; ONNX Runtime: %.1f dB, worst %s%s" %
                      (model, setting, "ok" if ok else "FAILED", said, dict(left), db, worst,
                       "; with itself %.1f dB" % own if db < LEAST_DB else ""))
                if args.infer_bench:
                    print(times(args.infer_bench, path))
                sys.stdout.flush()
    sys.exit(bool(failed))  # of numpy's otherwise, which exits with 1


if __name__ == "__main__":
    main()
