#!/usr/bin/env python3
"""Memory of one inference in fresh processes, ours and ONNX Runtime's: largest and last resident set.

usage: peaks.py FOLDER MODEL... [--set NAME=EXTENT] [--threads N] [--memory fast|low] [--markdown]

FOLDER has infer-opt and infer-bench. Of ONNX Runtime, which runs in Python, what a process takes that imports it and
NumPy and loads nothing is subtracted. Open extents are 1 where --set does not name them (ours may find others)."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64", "tensor(int64)": "int64",
         "tensor(int32)": "int32", "tensor(uint8)": "uint8", "tensor(int8)": "int8", "tensor(bool)": "bool"}


def resident(field):
    return int(re.search(rf"{field}:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text()).group(1)) * 1024


def worker(model, threads, extents):
    """Prints peak and last resident set of this process; model "": of one that imports and loads nothing."""
    import numpy
    import onnxruntime
    if model:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        inputs = {}
        for i in session.get_inputs():
            dims = [d if isinstance(d, int) else extents.get(d, 1) for d in i.shape]
            dtype = TYPES[i.type]
            is_float = dtype.startswith("float")
            inputs[i.name] = (numpy.random.default_rng(0).standard_normal(dims) if is_float else numpy.zeros(dims)).astype(dtype)
        session.run(None, inputs)
    print(json.dumps([resident("VmHWM"), resident("VmRSS")]))


def started(command):
    """Standard output of a process, and its largest resident set."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return output, usage.ru_maxrss * 1024


def ours(folder, model, args):
    common = ["--threads", str(args.threads)] + (["--memory", args.memory] if args.memory != "fast" else [])
    for text in args.set:
        common += ["--set", text]
    _, run = started([f"{folder}/infer-opt", "run", model, *common])
    report, _ = started([f"{folder}/infer-bench", "run", model, *common, "--runs", "1", "--warmup", "0", "--json", "-"])
    memory = json.loads(report)["results"][0]["memory"]
    return {"run": run, "bench": memory["peak_resident_bytes"], "last": memory["resident_bytes"],
            "weights": memory["weight_bytes"], "arena": memory["arena_bytes"]}


def theirs(model, args):
    command = [sys.executable, __file__, "--worker", model, "--threads", str(args.threads)]
    for text in args.set:
        command += ["--set", text]
    return json.loads(started(command)[0])


def stored(model):
    """Bytes of the model with its external data."""
    path = pathlib.Path(model)
    return path.stat().st_size + sum(p.stat().st_size for p in path.parent.glob(path.name + "*data*"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", default="fast")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("paths", nargs="*")
    args = parser.parse_args()
    if args.worker is not None:
        return worker(args.worker, args.threads, {k: int(v) for k, v in (t.split("=") for t in args.set)})
    folder, *models = args.paths
    base = theirs("", args)
    head = ["model", "file", "weights + arena", "peak of run", "peak of bench", "last", "ONNX Runtime: peak", "last", "peak / peak"]
    if args.markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    else:
        print("MB:", ", ".join(head))
    for model in models:
        try:
            own = ours(folder, model, args)
        except RuntimeError as e:
            print(e, file=sys.stderr)
            continue
        try:
            other = [a - b for a, b in zip(theirs(model, args), base)]
        except (RuntimeError, ValueError):
            other = None
        figures = [stored(model), own["weights"] + own["arena"], own["run"], own["bench"], own["last"]] + (other or [])
        row = [pathlib.Path(model).stem] + [f"{f / 1e6:.0f}" for f in figures]
        row += [f"{own['run'] / other[0]:.2f}"] if other else ["-"] * 3
        print("| " + " | ".join(row) + " |" if args.markdown else "  ".join(f"{c:>12}" for c in row), flush=True)


if __name__ == "__main__":
    main()
