#!/usr/bin/python3
"""How long a newcomer waits: a model of the size of resnet50 and one of bert-base are fused, quantized with a gate and compared, page included,
in three commands each.

    INFER_TEST_DATA=DATA tests/bench/first_hour.py build/release/bin [--keep FOLDER]

Prints the commands, their time, their exit code and their last lines; exit 1 where a command fails or a model takes more than five minutes. The weights are those of
`infer-bench zoo` (random), so that the gate judges the distance to the FP32 model (SQNR), not accuracy. Photos come from
DATA/labelled/imagenet_jpeg, token sequences are random."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

LIMIT_S = 300


def tokens(folder, samples=100, length=128):
    """Random sequences for BERT's three inputs, as one .npz."""
    random = numpy.random.default_rng(0)
    path = folder / "tokens.npz"
    numpy.savez(path, input_ids=random.integers(0, 30000, (samples, length)), attention_mask=numpy.ones((samples, length), "int64"),
                token_type_ids=numpy.zeros((samples, length), "int64"))
    return path


def run(*args):
    """(seconds, exit code, what was printed)"""
    begin = time.monotonic()
    done = subprocess.run(list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return time.monotonic() - begin, done.returncode, done.stdout


def first_hour(tools, folder, name, data):
    model, fused, int8, page = (folder / f"{name}{end}" for end in (".onnx", ".fused.onnx", ".int8.onnx", ".html"))
    _, code, said = run(tools / "infer-bench", "zoo", name, "-o", model)
    if code:
        sys.exit(said)
    whole, failed = 0.0, False
    for command in ((tools / "infer-opt", "fuse", model, "-o", fused),
                    (tools / "infer-opt", "quantize", model, "-o", int8, *data),
                    (tools / "infer-bench", "compare", fused, int8, "--html", page)):
        seconds, code, said = run(*command)
        whole, failed = whole + seconds, failed or code != 0
        print(f"$ {' '.join(pathlib.Path(str(c)).name for c in command)}\n  {seconds:.1f} s, exit {code}")
        print("".join(f"  | {line}\n" for line in said.splitlines()[-4:]), end="", flush=True)
    print(f"{name}: {whole:.1f} s in all (limit {LIMIT_S}), FP32 {model.stat().st_size / 1e6:.0f} MB, INT8 {int8.stat().st_size / 1e6:.0f} MB, "
          f"page {page.stat().st_size / 1e3:.0f} kB\n", flush=True)
    return failed or whole > LIMIT_S


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="leave models and pages in this folder")
    args = parser.parse_args()
    if not os.environ.get("INFER_TEST_DATA"):
        sys.exit("first_hour: INFER_TEST_DATA names no folder with labelled/imagenet_jpeg")
    photos = pathlib.Path(os.environ["INFER_TEST_DATA"]) / "labelled/imagenet_jpeg"
    with tempfile.TemporaryDirectory() as name:
        folder = args.keep or pathlib.Path(name)
        bad = [first_hour(args.bin, folder, "resnet50", ["--data", photos, "--labels", photos / "labels.csv", "--preprocess",
                                                          "resize=256,crop=224,scale=1/255,layout=nchw", "--min-sqnr", 15]),
               first_hour(args.bin, folder, "bert-base", ["--data", tokens(folder), "--min-sqnr", 10])]
    sys.exit(any(bad))


if __name__ == "__main__":
    main()
