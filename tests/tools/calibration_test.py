#!/usr/bin/python3
"""What calibration costs. memory: peak memory of `quantize` does not grow with the samples. ratio: on the zoo's resnet50
an image takes at most 1.3 of the CPU time of a plain forward pass, and peak memory is at most the model's and 300 MB.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE; the argument is memory or ratio."""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import unittest

import numpy as np

BIN = pathlib.Path(os.environ["INFER_BIN"])
DEMO = pathlib.Path(os.environ["INFER_SOURCE"]) / "datasets" / "demo"
KIND = "ratio" if "ratio" in sys.argv[1:] else "memory"


def run(*command):
    """(CPU seconds, peak memory in bytes) of the command."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=errors,
                                 env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if child.returncode != 0:
            raise RuntimeError(f"{command} ended with {child.returncode}: {errors.read()[-2000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


class Calibration(unittest.TestCase):
    def quantize(self, model, images, folder, observer, *options):
        return run(BIN / "infer-opt", "quantize", model, "-o", folder / "int8.onnx", "--calib", images, "--observer",
                   observer, "--recipe", "none", "--no-verify", "--threads", 1, *options, "-q")

    @unittest.skipUnless(KIND == "memory", "asked for ratio")
    def test_memory_does_not_grow_with_the_samples(self):
        images = np.load(DEMO / "calib_images.npy")
        options = ["--preprocess", "resize=32,interp=nearest,scale=1/255,layout=nchw"]
        with tempfile.TemporaryDirectory() as t:
            folder = pathlib.Path(t)
            peaks = {}
            # The file itself is small beside what inner values of so many samples would take (200 KiB each).
            for count in (20, 2000):
                np.save(folder / f"{count}.npy", np.resize(images, (count, *images.shape[1:])))
                for observer in ("auto", "minmax"):
                    peaks[observer, count] = self.quantize(DEMO / "digits.onnx", folder / f"{count}.npy", folder,
                                                           observer, *options)[1]
            for observer in ("auto", "minmax"):
                grown = peaks[observer, 2000] - peaks[observer, 20]
                print(f"{observer}: {peaks[observer, 20] / 1e6:.1f} MB for 20 samples, {grown / 1e6:+.1f} for 2,000")
                self.assertLess(grown, 8e6)

    @unittest.skipUnless(KIND == "ratio", "asked for memory")
    def test_an_image_takes_little_more_than_a_forward_pass(self):
        few, many = 10, 60
        with tempfile.TemporaryDirectory() as t:
            folder = pathlib.Path(t)
            model = folder / "resnet50.onnx"
            run(BIN / "infer-bench", "zoo", "resnet50", "-o", model, "-q")
            images = np.random.default_rng(1).random((many, 3, 224, 224), dtype=np.float32)
            for count in (few, many):
                np.save(folder / f"{count}.npy", images[:count])

            def forward(count):
                return run(BIN / "infer-bench", "run", model, "--level", 1, "--threads", 1, "--warmup", 2, "--min-time",
                           0, "--min-runs", count, "-q")[0]

            ratios = {"auto": [], "minmax": []}
            for _ in range(5):  # interleaved, for others may use the machine
                plain = forward(many) - forward(few)
                for observer in ratios:
                    seconds, peak = self.quantize(model, folder / f"{many}.npy", folder, observer)
                    less, _ = self.quantize(model, folder / f"{few}.npy", folder, observer)
                    ratios[observer].append((seconds - less) / plain)
                    self.assertLess(peak, model.stat().st_size + 300e6)
            print(json.dumps(ratios))
            for observer, found in ratios.items():
                self.assertLess(statistics.median(found), 1.3, observer)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
