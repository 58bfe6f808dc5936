#!/usr/bin/env python3
"""Steps that no fast kernel takes on this processor, of many models, with their share of the time.

    tests/bench/slow_steps.py BIN MODEL.onnx... [--zoo] [--fuse] [--least 0.5]

BIN: the folder of infer-opt and infer-bench. Each model is run on one thread, as it came and (with
--fuse) after `infer-opt fuse`; `infer-bench run --layers` tells the kernel and the time of each step.
Listed are the steps

- on a reference kernel, whole or in part,
- that were taken apart, since no kernel takes the group whole,
- of a convolution on oneDNN's gemm, which runs on one thread,

that take at least so many percent of their model's time, and what they take together. A dimension
that has no number gets 1. Shares hang little on other work; milliseconds are none of this script's.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def kind_of(layer):
    """Why a step counts as slow; "" where it does not."""
    kernel, op = layer["kernel"], layer["op"]
    if "reference" in kernel or layer["reference_ms"] > 0.5 * layer["ms"] > 0:
        return "reference"
    if ":gemm" in kernel and "Conv" in op:
        return "gemm"
    return "apart" if " + " in kernel else ""


def layers_of(bin_folder, model):
    """Layers by `infer-bench run --layers`; a text where the model does not run so."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [bin_folder / "infer-bench", "run", model, "--layers", "--cold", "0", "--threads",
                   "1", "--runs", "3", "--warmup", "1", "--json", out.name, "-q"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no report"
        return json.load(open(out.name))["results"][0]["layers"]


def convert(bin_folder, verb, model, to):
    command = [bin_folder / "infer-opt", *verb, model, "-o", to, "-q"]
    return subprocess.run(command, capture_output=True, text=True, timeout=900).returncode == 0


class Survey:
    def __init__(self, args):
        self.args = args
        self.measured = self.refused = 0
        self.total = {}

    def show(self, name, model):
        layers = layers_of(self.args.bin, model)
        if isinstance(layers, str):
            self.refused += 1
            print(f"{name}: not run ({layers})", flush=True)
            return
        self.measured += 1
        whole = sum(layer["ms"] for layer in layers) or 1
        slow = [(kind_of(layer), layer) for layer in layers]
        slow = [(kind, layer) for kind, layer in slow if kind]
        for kind, layer in sorted(slow, key=lambda s: -s[1]["ms"]):
            percent = 100 * layer["ms"] / whole
            if percent < self.args.least:
                continue
            print(f"{name}: {percent:5.1f} % {kind:9} {layer['op']} by {layer['kernel']} "
                  f"({layer['node']})", flush=True)
        for kind, layer in slow:
            self.total.setdefault(kind, {}).setdefault(name, 0)
            self.total[kind][name] += 100 * layer["ms"] / whole

    def all_forms(self, name, model, folder):
        self.show(name, model)
        if not self.args.fuse:
            return
        to = folder / "fused.onnx"
        if convert(self.args.bin, ["fuse"], model, to):
            self.show(f"{name} (fused)", to)
        else:
            print(f"{name} (fused): not written", flush=True)

    def summary(self):
        print(f"{self.measured} measured, {self.refused} not run")
        for kind, models in sorted(self.total.items()):
            most = sorted(models.items(), key=lambda m: -m[1])[:5]
            print(f"{kind}: in {len(models)} models, most in " +
                  ", ".join(f"{name} {percent:.1f} %" for name, percent in most))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--zoo", action="store_true", help="also every architecture of infer-bench zoo")
    parser.add_argument("--fuse", action="store_true", help="also fused")
    parser.add_argument("--least", type=float, default=0.5, help="percent of a model's time")
    args = parser.parse_args()
    survey = Survey(args)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for model in args.models:
            survey.all_forms(f"{model.parent.name}/{model.stem}", model, folder)
        if args.zoo:
            listed = subprocess.run([args.bin / "infer-bench", "zoo"], capture_output=True, text=True)
            for name in [line.split()[0] for line in listed.stdout.splitlines()[1:] if line.strip()]:
                model = folder / "zoo.onnx"
                subprocess.run([args.bin / "infer-bench", "zoo", name, "-o", model, "-q"], check=True)
                survey.all_forms(f"zoo {name}", model, folder)
    survey.summary()
    return 0 if survey.measured else 1


if __name__ == "__main__":
    sys.exit(main())
