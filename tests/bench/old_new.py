#!/usr/bin/python3
"""Two builds of this toolkit on the same models, in turns: is the newer one as fast?

    tests/bench/old_new.py OLD_BIN NEW_BIN [MODEL.onnx or a name of `infer-bench zoo`]... [--turns 7] [--threads 1] [--set NAME=N]

A turn starts a fresh process of each (who goes first alternates) and takes its median latency, its time to load and to compile. Prints for each
model the median over the turns of new / old with its range. Judges nothing: times hang on the machine."""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

ZOO = ["resnet18", "mobilenetv2", "squeezenet1.1", "yolo", "bert-base", "vit-b16", "gpt2-small-kv", "gpt2-small-kv-int4"]


def measure(tools, model, args, folder):
    report = folder / "report.json"
    command = [tools / "infer-bench", "run", model, "--threads", args.threads, "--min-runs", 10, "--min-time", args.seconds, "--json", report, "-q"]
    for extent in args.set:
        command += ["--set", extent]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{tools}: {model}: {done.stderr.strip()}")
    result = json.loads(report.read_text())["results"][0]
    return {"run": result["latency_ms"]["median"], "start": result["load_ms"] + result["compile_ms"] + result["first_ms"]}


def ratios(old, new, model, args, folder):
    out = {"run": [], "start": []}
    for turn in range(args.turns):
        order = (old, new) if turn % 2 == 0 else (new, old)
        times = {tools: measure(tools, model, args, folder) for tools in order}
        for what, values in out.items():
            values.append(times[new][what] / times[old][what])
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of timed runs in a process")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    medians = {"run": [], "start": []}
    print(f"new / old, median of {args.turns} turns (range), {args.threads} thread(s)\n| model | run | load, compile, first run |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in args.models or ZOO:
            path = pathlib.Path(model)
            if not path.exists():
                path = folder / f"{model}.onnx"
                subprocess.run([args.old / "infer-bench", "zoo", model, "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            cells = []
            for what, values in ratios(args.old, args.new, path, args, folder).items():
                middle = statistics.median(values)
                medians[what].append(middle)
                cells.append(f"{middle:.3f} ({min(values):.2f} to {max(values):.2f})")
            label = path.parent.name if path.stem == "model" else path.stem
            print(f"| {label} | {' | '.join(cells)} |", flush=True)
    means = [math.exp(statistics.mean(map(math.log, values))) for values in medians.values()]
    print("| geometric mean | " + " | ".join(f"{m:.3f}" for m in means) + " |")


if __name__ == "__main__":
    main()
