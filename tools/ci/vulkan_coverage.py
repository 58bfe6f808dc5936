#!/usr/bin/python3
"""Which share of a model's nodes runs on shaders, what the rest is, and what crosses between device and host.

usage: vulkan_coverage.py INFER_OPT [--zoo INFER_BENCH] [--share PERCENT] [--between N] [--known NAME,...] [MODEL.onnx...] [-- OPTION...]

A row of Markdown for each model; OPTIONs go to `infer-opt inspect` (--set batch=1). It is the "device_share" of that report. Nodes are those that run: what is known before
the run, and views, which only give a value other extents, are left out. A crossing is a value that moves between host and device:
inputs and outputs of the model, which lie on the host, and those between its steps. The last column names the operators without a
shader, the most frequent first.

--zoo adds the architectures of `infer-bench zoo`, batch 1, all their layers. --share and --between are aims: of nodes on shaders at
least, of values that cross between steps at most. Models that miss one are named at the end, exit code 1; those of --known (docs/measurements/vulkan.md says why) are named and pass, and miss
it when they no longer do: then their name has to go."""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile


def inspect(infer_opt, model, options):
    """Its device_share, null without extents; and why there is none."""
    done = subprocess.run([infer_opt, "inspect", model, "--kernels", "--plan", "--device", "vulkan", "--json", "-", "-q", *options],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [""])[-1]
    return json.loads(done.stdout)["device_share"], ""


class Coverage:
    """Of one model; `why` says why there is none."""

    def __init__(self, infer_opt, model, options):
        self.name = os.path.basename(os.path.dirname(model)) if os.path.basename(model) == "model.onnx" else os.path.basename(model)[:-5]
        share, self.why = inspect(infer_opt, model, options)
        if share is None:
            self.why = self.why or "no plan without extents"
            return
        self.nodes, self.on_shaders, self.bytes = share["nodes"], share["on_device"], share["crossing_bytes"]
        self.ends, self.between = share["crossings"]["inputs_and_outputs"], share["crossings"]["between_steps"]
        self.without = collections.Counter({w["op"]: w["nodes"] for w in share["without"]})

    def share(self):
        return 100 * self.on_shaders / max(self.nodes, 1)

    def row(self):
        if self.why:
            return "| %s | - | - | - | - | - | %s |" % (self.name, self.why)
        rest = ", ".join("%s %d" % (op, n) for op, n in self.without.most_common(6)) + (", ..." if len(self.without) > 6 else "")
        return "| %s | %d | %d (%.0f %%) | %d | %d | %.2f | %s |" % (
            self.name, self.nodes, self.on_shaders, self.share(), self.ends, self.between, self.bytes / 1e6, rest)

    def misses(self, share, between):
        if self.why:  # models that are all control flow have no plan
            return "" if "shows no plan" in self.why else self.why
        missed = ["%.1f %% of nodes on shaders" % self.share()] if self.share() < share else []
        if self.between > between:
            missed.append("%d values cross between steps" % self.between)
        return ", ".join(missed)


LARGE = ("tinyllama", "qwen2")


def zoo(infer_bench, folder):
    """Paths of its architectures, each written when it is asked for and removed behind it."""
    listed = json.loads(subprocess.run([infer_bench, "zoo", "--json", "-", "-q"], check=True, stdout=subprocess.PIPE).stdout)
    for architecture in listed["models"]:
        path = os.path.join(folder, architecture["name"] + ".onnx")
        # Of large decoders two layers: all are alike.
        layers = ["--num-layers", "2"] if architecture["name"].startswith(LARGE) else []
        subprocess.run([infer_bench, "zoo", architecture["name"], "-o", path, "-q", *layers], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield path
        for written in os.listdir(folder):
            os.remove(os.path.join(folder, written))


def main():
    words, options = sys.argv[1:], []
    if "--" in words:
        at = words.index("--")
        words, options = words[:at], words[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer_opt")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--zoo")
    parser.add_argument("--share", type=float, default=0)
    parser.add_argument("--between", type=float, default=float("inf"))
    parser.add_argument("--known", default="", type=lambda names: names.split(","))
    args = parser.parse_intermixed_args(words)
    if not args.models and not args.zoo:
        parser.error("no model, and no --zoo")
    print("| model | nodes that run | on shaders | inputs and outputs that cross | between steps | MB crossing | without a shader |")
    print("|---|---|---|---|---|---|---|")
    missed, excused = [], []

    def cover(model):
        coverage = Coverage(args.infer_opt, model, options)
        print(coverage.row(), flush=True)
        why = coverage.misses(args.share, args.between)
        if why and (args.share > 0 or args.between < float("inf")):
            (excused if coverage.name in args.known else missed).append("%s: %s" % (coverage.name, why))
        elif coverage.name in args.known:
            missed.append("%s: it is --known to miss an aim, and misses none" % coverage.name)

    for model in args.models:
        cover(model)
    if args.zoo:
        with tempfile.TemporaryDirectory() as folder:
            for model in zoo(args.zoo, folder):
                cover(model)
    for line in missed + [line + " (known)" for line in excused]:
        print(line, file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
