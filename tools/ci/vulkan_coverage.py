#!/usr/bin/python3
"""Which share of a model's nodes runs on shaders, what the rest is, and what crosses between device and host.

usage: vulkan_coverage.py INFER_OPT MODEL.onnx... [-- OPTION...]

A row of Markdown for each model; OPTIONs go to `infer-opt inspect` (--set batch=1). Nodes are those that run: what is known before
the run, and views, which only give a value other extents, are left out. The last column names the operators without a shader,
the most frequent first."""
import collections
import json
import os
import subprocess
import sys


def inspect(infer_opt, model, options):
    done = subprocess.run([infer_opt, "inspect", model, "--plan=all", "--device", "vulkan", "--json", "-", "-q", *options],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [""])[-1]
    return json.loads(done.stdout)["plan"], ""


def row(infer_opt, model, options):
    name = os.path.basename(os.path.dirname(model)) if os.path.basename(model) == "model.onnx" else os.path.basename(model)[:-5]
    plan, why = inspect(infer_opt, model, options)
    views = {v["name"]: v for v in plan or []}
    if "launches" not in views:
        return "| %s | - | - | - | - | %s |" % (name, why or "no plan without extents")
    steps, buffers = views["layouts"]["steps"], {b["buffer"]: b for b in views["memory"]["buffers"]}
    running, transfers = set(), []
    for launch in views["launches"]["launches"]:
        if launch["kind"] == "transfer":
            transfers.append(buffers[launch["args"][1]]["bytes"])
        elif launch["kind"] in ("kernel", "reference", "late"):
            running.add(launch["step"])
    nodes = on_shaders = 0
    without = collections.Counter()
    for s in running:
        n = len(steps[s]["op"].split("+"))
        nodes += n
        if steps[s]["kernel"].startswith("vulkan:"):
            on_shaders += n
        else:
            without[steps[s]["op"]] += 1
    rest = ", ".join("%s %d" % (op, n) for op, n in without.most_common(6)) + (", ..." if len(without) > 6 else "")
    return "| %s | %d | %d (%.0f %%) | %d | %.2f | %s |" % (
        name, nodes, on_shaders, 100 * on_shaders / max(nodes, 1), len(transfers), sum(transfers) / 1e6, rest)


def main():
    args = sys.argv[1:]
    options = []
    if "--" in args:
        options = args[args.index("--") + 1:]
        args = args[:args.index("--")]
    if len(args) < 2:
        sys.exit(__doc__)
    print("| model | nodes that run | on shaders | crossings | MB crossing | without a shader |")
    print("|---|---|---|---|---|---|")
    for model in args[1:]:
        print(row(args[0], model, options), flush=True)


main()
