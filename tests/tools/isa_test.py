#!/usr/bin/python3
"""Tensors of integers have the same bits under every INFER_MAX_ISA; f32 outputs of models without integers agree
within 1e-5 of the largest value.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE; the argument is quick (the demo model),
full (a network of the zoo) or nightly (three)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

BIN = pathlib.Path(os.environ["INFER_BIN"])
DEMO = pathlib.Path(os.environ["INFER_SOURCE"]) / "datasets" / "demo"
ISAS = ["sse4", "avx2", "avx512", "vnni"]
KIND = next((a for a in sys.argv[1:] if a in ("full", "nightly")), "quick")
ZOO = ["mobilenetv2", "resnet18", "squeezenet1.1"] if KIND == "nightly" else ["mobilenetv2"]


def run(*command, isa=""):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env={**os.environ, "INFER_MAX_ISA": isa})
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def tensors(model, isa, *options):
    """{name: [type, hash or values...]}"""
    done = run(BIN / "integer_tensors", *options, model, isa=isa)
    print(f"{model.name} {isa}:", *done.stderr.split("\n"), flush=True)
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    return {line[0]: line[1:] for line in lines}


def models(folder):
    """(network, the options that calibrate it)"""
    if KIND == "quick":
        yield DEMO / "digits.onnx", ["--calib", DEMO / "calib_images.npy", "--preprocess",
                                     "resize=32,interp=nearest,scale=1/255,layout=nchw"]
        return
    images = np.random.default_rng(1).random((2, 3, 224, 224), dtype=np.float32)
    np.save(folder / "images.npy", images)
    for name in ZOO:
        run(BIN / "infer-bench", "zoo", name, "-o", folder / f"{name}.onnx", "-q")
        yield folder / f"{name}.onnx", ["--calib", folder / "images.npy"]


class Isas(unittest.TestCase):
    def test_same_bits(self):
        with tempfile.TemporaryDirectory() as t:
            folder = pathlib.Path(t)
            for model, calibration in models(folder):
                for activations in ["u8", "s8"]:
                    int8 = folder / f"{model.stem}.{activations}.onnx"
                    run(BIN / "infer-opt", "quantize", model, "-o", int8, *calibration, "--activations", activations,
                        "--recipe", "fast", "--no-verify", "-q")
                    self.same_integers(int8)

    def same_integers(self, model, *options):
        want = tensors(model, ISAS[-1], *options)
        integers = [n for n, v in want.items() if v[0][:2] in ("u8", "i8")]
        self.assertGreater(len(integers), 3)
        for isa in ISAS[:-1]:
            got = tensors(model, isa, *options)
            self.assertEqual(want.keys(), got.keys())
            differ = [n for n in integers if got[n] != want[n]]
            self.assertEqual(differ, [], f"{model.name}: {isa} and {ISAS[-1]}")
        print(f"{model.name}: {len(integers)} tensors of integers have the same bits", flush=True)

    def test_same_bits_beside_other_precisions(self):
        """Layers of int8, of 8-bit weights and of f32 in one file: a layer in f32 may differ in its last bits, integer
        kernels may not."""
        with tempfile.TemporaryDirectory() as t:
            folder = pathlib.Path(t)
            for model, calibration in models(folder):
                policy, mixed = folder / f"{model.stem}.json", folder / f"{model.stem}.mixed.onnx"
                options = ["quantize", model, "-o", mixed, *calibration, "--mixed", "--observer", "minmax",
                           "--no-verify", "-q"]
                run(BIN / "infer-opt", *options, "--goal", "size", "--budget", "1s", "--verify-samples", "1", "--layer-samples", "1",
                    "--save-policy", policy)
                chosen = json.loads(policy.read_text())
                layers = [layer for layer in chosen["layers"] if layer["op"] == "Conv"]
                for i, layer in enumerate(layers):
                    layer["precision"] = "f32" if i % 5 == 4 else "int8"
                policy.write_text(json.dumps(chosen))
                run(BIN / "infer-opt", *options, "--policy", policy)
                self.same_integers(mixed, "--cut")

    def test_bf16_agrees(self):
        """Operands are rounded alike everywhere, by instructions or without them; sums differ in their last bits, and
        where a sum lies between two numbers of bf16 the next layer takes the one or the other."""
        with tempfile.TemporaryDirectory() as t:
            folder = pathlib.Path(t)
            for model, _ in models(folder):
                outputs = {}
                for isa in ["sse4", "avx2", "avx512", "bf16", "all"]:
                    to = folder / f"{model.stem}.{isa}"
                    run(BIN / "infer-opt", "run", model, "--compute", "bf16", "--threads", "1", "-o", to, "-q", isa=isa)
                    outputs[isa] = np.load(next(to.glob("*.npy"))).astype(np.float64)
                run(BIN / "infer-opt", "run", model, "--threads", "1", "-o", folder / "f32", "-q")
                f32 = np.load(next((folder / "f32").glob("*.npy"))).astype(np.float64)
                want = outputs["all"]
                rounding = np.abs(want - f32).max() / np.abs(f32).max()
                self.assertGreater(rounding, 1e-5)
                for isa, got in outputs.items():
                    off = np.abs(got - want).max() / np.abs(want).max()
                    print(f"{model.name} bf16 {isa}: {off:.2g}, from f32 {rounding:.2g}")
                    self.assertLessEqual(off, 0.01)

    def test_f32_agrees(self):
        with tempfile.TemporaryDirectory() as t:
            for model, _ in models(pathlib.Path(t)):
                want = tensors(model, ISAS[-1])
                for isa in ISAS[:-1]:
                    for name, values in tensors(model, isa).items():
                        a = np.array(values[1:], np.float64)
                        b = np.array(want[name][1:], np.float64)
                        off = np.abs(a - b).max() / np.abs(b).max()
                        print(f"{model.name} {name} {isa}: {off:.2g}")
                        self.assertLessEqual(off, 1e-5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
