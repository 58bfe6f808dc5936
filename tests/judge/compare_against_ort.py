#!/usr/bin/env python3
"""`infer-opt compare --against ort`: what it says of ONNX Runtime's outputs is what ONNX Runtime gives.

usage: compare_against_ort.py INFER_OPT DEMO_FOLDER

Exit 77 (ctest's skip) without onnxruntime and numpy."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnxruntime as ort
except ImportError as e:
    print(f"SKIPPED: {e}")
    sys.exit(77)


def compare(tool, code, *args):
    done = subprocess.run([tool, "compare", *args, "--against", "ort", "--python", sys.executable,
                           "--json", "-"], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (args, done.returncode, done.stderr)
    return json.loads(done.stdout)


def main():
    tool, demo = sys.argv[1:]
    model = os.path.join(demo, "digits.onnx")
    with tempfile.TemporaryDirectory() as folder:
        x = np.random.default_rng(1).random((24, 1, 32, 32), np.float32)
        np.save(folder + "/x.npy", x)
        data = ["--data", folder + "/x.npy"]
        one = compare(tool, 0, model, *data)
        assert one["against"]["side"] == "golden" and one["accuracy"]["samples"] == 24
        assert one["accuracy"]["outputs"][0]["sqnr_db"] > 100
        assert one["against"]["versions"]["onnxruntime"] == ort.__version__

        int8 = folder + "/int8.onnx"
        subprocess.run([tool, "quantize", model, "-o", int8, *data, "--recipe", "fast",
                        "--no-verify"], check=True, timeout=300, capture_output=True)
        two = compare(tool, 0, model, int8, *data, "--min-sqnr", "10")
        assert two["against"]["side"] == "candidate"

        def run(path):
            session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            name = session.get_inputs()[0].name
            return np.concatenate([session.run(None, {name: x[i:i + 1]})[0] for i in range(len(x))])

        golden, candidate = run(model).astype(np.float64), run(int8).astype(np.float64)
        sqnr = 10 * np.log10((golden ** 2).sum() / ((candidate - golden) ** 2).sum())
        told = two["accuracy"]["outputs"][0]["sqnr_db"]
        print(f"ONNX Runtime's INT8: {told:.4f} dB told, {sqnr:.4f} dB computed here")
        assert abs(told - sqnr) < 0.01, (told, sqnr)


if __name__ == "__main__":
    main()
