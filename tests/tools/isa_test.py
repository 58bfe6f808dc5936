#!/usr/bin/python3
"""Tensors of integers have the same bits under every INFER_MAX_ISA; f32 outputs of models without integers agree
within 1e-5 of the largest value.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE; the argument is quick (the demo model) or
full (networks of the zoo as well)."""
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
ZOO = ["mobilenetv2", "resnet18", "squeezenet1.1"]
KIND = "full" if "full" in sys.argv[1:] else "quick"


def run(*command, isa=""):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env={**os.environ, "INFER_MAX_ISA": isa})
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def tensors(model, isa):
    """{name: [type, hash or values...]}"""
    done = run(BIN / "integer_tensors", model, isa=isa)
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
                        "--no-verify", "-q")
                    want = tensors(int8, ISAS[-1])
                    integers = [n for n, v in want.items() if v[0][:2] in ("u8", "i8")]
                    self.assertGreater(len(integers), 3)
                    for isa in ISAS[:-1]:
                        got = tensors(int8, isa)
                        self.assertEqual(want.keys(), got.keys())
                        differ = [n for n in integers if got[n] != want[n]]
                        self.assertEqual(differ, [], f"{int8.name}: {isa} and {ISAS[-1]}")
                    print(f"{int8.name}: {len(integers)} tensors of integers have the same bits", flush=True)

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
