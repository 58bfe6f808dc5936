#!/usr/bin/env python3
"""Decoders that are calibrated without a past: inputs of keys and values have the extent 0.

usage: empty_cache.py INFER_OPT [--every N] [MODEL...] (every N-th mode)

Every mode that takes data must quantize such a model, leave what it saw no number of in FP32, and
say so; ONNX Runtime runs the file without a past and, where calibration knew none, with one. Exits 1
where a mode fails, a file does not run, or its outputs without a past are below 20 dB (12 dB for
weights of 4 bits); 77 without data."""
import json
import os
import subprocess
import sys
import tempfile

import judging
from judging import np

SAMPLES, LEAST_DB, LEAST_DB_4_BITS = 16, 20, 12
MODES = {
    "none": ["--recipe", "none"], "best": ["--recipe", "best", "--recipe-seconds", "60"],
    "mixed": ["--mixed", "--goal", "size", "--budget", "20s"],
    "weight-only": ["--mode", "weight-only", "--method", "gptq", "--format", "qdq"],
    "fp16": ["--mode", "fp16"],
}


def feeds(session, past, seed):
    """Two tokens, which no other seed below 400 has, and for each a cache of so many."""
    random = np.random.default_rng(seed)
    found = {}
    for spec in session.get_inputs():
        if "past" in spec.name:
            shape = [2 if isinstance(d, str) else d for d in spec.shape]
            at = [i for i, d in enumerate(spec.shape) if isinstance(d, str)][-1]
            shape[at] = past
            found[spec.name] = random.standard_normal(shape).astype(np.float32)
        elif "position" in spec.name:
            found[spec.name] = np.full((2, 1), past, np.int64)
        else:
            found[spec.name] = np.array([[seed % 20], [seed // 20]])
    return found


def sqnr(golden, candidate, past):
    signal = noise = 0.0
    for seed in range(100, 108):
        inputs = feeds(golden, past, seed)
        for a, b in zip(golden.run(None, inputs), candidate.run(None, inputs)):
            if a.dtype == np.float32:
                signal += (a.astype(np.float64)**2).sum()
                noise += ((a.astype(np.float64) - b)**2).sum()
    return 10 * np.log10(signal / max(noise, 1e-300))


def judge(infer_opt, model, mode, folder):
    path = os.path.join(judging.data_folder(), "models", model, "model.onnx")
    golden = judging.session_of(path, True)
    rows = [feeds(golden, 0, seed) for seed in range(2 * SAMPLES)]
    for name, part in (("calib", rows[:SAMPLES]), ("eval", rows[SAMPLES:])):
        np.savez(os.path.join(folder, name + ".npz"),
                 **{k: np.stack([r[k] for r in part]) for k in part[0]})
    out, report = os.path.join(folder, "q.onnx"), os.path.join(folder, "r.json")
    made = subprocess.run([infer_opt, "quantize", path, "-o", out, "--opset", "max", "--calib", folder + "/calib.npz",
                           "--eval", folder + "/eval.npz", "--json", report, "--threads", "1", "-q",
                           *MODES[mode]], capture_output=True, text=True)
    if made.returncode == 4:
        print(f"{model} {mode}: nothing to quantize")
        return True
    if made.returncode != 0:
        print(f"{model} {mode}: exit {made.returncode}: {made.stderr.strip()[-300:]}")
        return False
    with open(report) as f:
        layers = json.load(f)["quantization"]["layers"]
    empty = sum("always empty" in layer["reason"] for layer in layers)
    candidate = judging.session_of(out, True)
    without, with_past = (sqnr(golden, candidate, past) for past in (0, 3))
    quantized = sum(layer["precision"] != "f32" for layer in layers)
    print(f"{model} {mode}: {quantized} of {len(layers)} quantized, {empty} in FP32 because they saw "
          f"nothing; {without:.1f} dB without a past, {with_past:.1f} with one", flush=True)
    return without >= (LEAST_DB_4_BITS if mode == "weight-only" else LEAST_DB)


def main():
    passed, step = True, judging.step_of_arguments()
    for model in sys.argv[2:] or ["gpt2_past", "stories260k_a"]:
        for mode in list(MODES)[::step]:
            with tempfile.TemporaryDirectory() as folder:
                passed = judge(sys.argv[1], model, mode, folder) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
