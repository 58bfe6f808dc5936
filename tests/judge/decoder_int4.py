#!/usr/bin/env python3
"""A trained decoder with weights of 4 bits, by our quantizer and by NNCF's (scale estimation): bytes of
the files, and how far the distribution of the next token moves (KL divergence, ONNX Runtime runs all
files) on texts that no quantizer saw.

usage: decoder_int4.py INFER_OPT [--nncf PYTHON]

PYTHON is an interpreter that has nncf and onnx (else: this one, where it has). NNCF keeps embeddings and the
head in 8 bits. Without it its figures are those of docs/measurements/quantization.md. Exits 1 when a file of
NNCF's has a smaller divergence than each of ours of at most its bytes, or when ours lie above the figures of
that document; 77 without data."""
import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile

import judging
import model_data
from judging import np

MODEL = "stories260k_a"
OURS = [(block, form) for block in (16, 32, 64) for form in ("", "--asymmetric")]
# docs/measurements/quantization.md, "Beside NNCF on a decoder": bytes and KL.
DOCUMENTED = {(16, "--asymmetric"): (257_864, 0.0385), (16, ""): (247_303, 0.0431), (32, "--asymmetric"): (224_316, 0.0523),
              (32, ""): (217_927, 0.0614), (64, ""): (201_319, 0.0725)}
DOCUMENTED_NNCF = [(306_653, 0.0582), (300_383, 0.0598), (295_933, 0.0625)]
BEYOND = 1.02  # other processors: ONNX Runtime's kernels sum in another order
NNCF = """
import sys, numpy as np, onnx, nncf
source, calib, out, mode, group = sys.argv[1:]
rows = dict(np.load(calib))
samples = [{k: v[i:i + 1] for k, v in rows.items()} for i in range(len(rows["input_ids"]))]
fallback = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
model = nncf.compress_weights(onnx.load(source), mode=getattr(nncf.CompressWeightsMode, mode), group_size=int(group),
                              ratio=1.0, scale_estimation=True, dataset=nncf.Dataset(samples, lambda x: x),
                              advanced_parameters=fallback)
onnx.save(model, out)
"""


def log_probabilities(path, rows):
    scores = judging.session_of(path, True).run(["logits"], rows)[0].astype(np.float64)
    scores -= scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def make(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stderr[-500:])
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("infer_opt")
    parser.add_argument("--nncf")
    args = parser.parse_args()
    source = os.path.join(judging.data_folder(), "models", MODEL, "model.onnx")
    if not os.path.exists(source):
        judging.skip(f"no {source}")
    nncf = args.nncf or (sys.executable if importlib.util.find_spec("nncf") else None)
    if not nncf:
        print("skipped: NNCF is not installed; ours beside its documented figures", flush=True)
    found = {"ours": [], "nncf": [] if nncf else DOCUMENTED_NNCF}
    above = 0
    with tempfile.TemporaryDirectory() as folder:
        calib = os.path.join(folder, "calib.npz")
        np.savez(calib, **model_data.samples(MODEL, source, 128, 11))
        unseen = model_data.samples(MODEL, source, 256, 22)
        golden = log_probabilities(source, unseen)
        files = []
        for block, form in OURS:
            path = os.path.join(folder, f"ours_{block}{form}.onnx")
            if make([args.infer_opt, "quantize", source, "-o", path, "--mode", "weight-only", "--bits", 4, "--block", block,
                     "--method", "auto", *([form] if form else []), "--calib", calib, "--no-verify", "-q"]):
                files.append(("ours", f"auto, block {block} {form[2:]}", path, DOCUMENTED.get((block, form))))
        for mode, group in (("INT4_SYM", 32), ("INT4_ASYM", 32), ("INT4_SYM", 64), ("INT4_ASYM", 64)) if nncf else ():
            path = os.path.join(folder, f"nncf_{mode}_{group}.onnx")
            if make([nncf, "-c", NNCF, source, calib, path, mode, group]):
                files.append(("nncf", f"{mode}, group {group}, scale estimation", path, None))
        for whose, name, path, told in files:
            try:
                quantized = log_probabilities(path, unseen)
            except Exception as e:  # ONNX Runtime refuses the file
                print(f"{whose}: {name}: does not run: {str(e)[:100]}")
                continue
            kl = (np.exp(golden) * (golden - quantized)).sum(-1).mean(1)
            error = 1.96 * kl.std() / len(kl)**0.5
            same = 100 * (golden.argmax(-1) == quantized.argmax(-1)).mean()
            found[whose].append((os.path.getsize(path), kl.mean()))
            print(f"{whose}: {name}: {os.path.getsize(path):,} bytes, KL {kl.mean():.4f} +- {error:.4f}, "
                  f"same token {same:.1f} %", flush=True)
            if told and (os.path.getsize(path) > BEYOND * told[0] or kl.mean() > BEYOND * told[1]):
                print(f"FAIL: {name}: documented are {told[0]:,} bytes, KL {told[1]}", flush=True)
                above += 1
    if not found["nncf"]:
        judging.skip("NNCF wrote no file that runs")
    made = {name for whose, name, path, told in files if whose == "ours"}
    if len(made) < len(OURS):
        print(f"FAIL: {len(OURS) - len(made)} of ours were not made")
        return 1
    beaten = [n for n in found["nncf"] if all(o[0] > n[0] or o[1] > n[1] for o in found["ours"])]
    for size, kl in beaten:
        print(f"FAIL: NNCF's file of {size:,} bytes has a KL of {kl:.4f}, and none of ours of at most its bytes less")
    return 1 if beaten or above else 0


if __name__ == "__main__":
    sys.exit(main())
