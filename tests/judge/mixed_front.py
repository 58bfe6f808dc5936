#!/usr/bin/env python3
"""Holds what a mixed search says against others: are the files that it says beat uniform INT8 and
INT4 smaller, more accurate and as fast, by data and by timing that the search did not see?

usage: mixed_front.py INFER_OPT INFER_BENCH [--budget 90s] [--calib N] [--eval N] [--pause PROGRAM]
                      [--keep DIR] [--json FILE] [MODEL...]

Searches each model on N calibration samples, one thread. For uniform INT8 and INT4 the point of the
front that is said to beat it, of several the one of least error, and the uniform policy itself are
written as files (`--policy`: no search, the same rounding). A row per pair, mixed beside uniform:

  size      bytes of the files
  error     noise over signal of all outputs on other samples, in our runtime (`infer-opt compare`)
            and in ONNX Runtime; with labels and rows of scores the KL divergence, what the search
            judged by
  time      of mixed over uniform: `infer-bench compare` with its 95 % interval, and ONNX Runtime in
            turns, median with the interval of the median

PROGRAM, if given, runs each timing (PROGRAM COMMAND...): to keep other work off the machine. Exits
1 when a file that is said to win is larger, errs more on the other samples in our runtime, or is
slower beyond doubt (by more than 2 %), 77 without data."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import judging
import model_data
import quantizers_side_by_side as classifiers
from judging import np

DEFAULT = ["resnet20_cifar", "vit_ibp_cifar", "cifar_resnet_2b", "winml_cifar", "cifar_sri_resnet_a",
           "squeezenet11_fp32", "matchboxnet_kws", "yunet_n_320", "ultraface_rfb320", "ocr_dbnet"]
UNIFORM = {"INT8": ("uniform int8",), "INT4": ("uniform int4-weights", "uniform int4-weights-256")}
SLOWER = 1.02  # less is not told apart


def run(*command, codes=(0,)):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()[-400:]}")


def report_of(path, *command, codes=(0,)):
    run(*command, "--json", path, codes=codes)
    with open(path) as f:
        return json.load(f)


class Case:
    """A model with data that the search sees and data that it does not."""

    def __init__(self, model, folder, calib, held):
        base = judging.data_folder()
        self.model, self.folder = model, folder
        self.source = os.path.join(base, "models", model, "model.onnx")
        self.labels = model in classifiers.MODELS
        if self.labels:
            (data, labels), prepare = classifiers.MODELS[model]
            rows = prepare(np.load(os.path.join(base, "labelled", data))).astype(np.float32)
            classes = np.load(os.path.join(base, "labelled", labels)).reshape(-1)
            order = np.random.default_rng(0).permutation(len(rows))
            half = len(order) // 2
            parts = {"calib": order[:min(half, calib)], "eval": order[half:][:held]}
            for part, which in parts.items():
                np.save(self.at(part + ".npy"), np.ascontiguousarray(rows[which]))
                np.save(self.at(part + "_labels.npy"), classes[which].astype(np.int64))
            name = judging.session_of(self.source, True).get_inputs()[0].name
            self.held = {name: rows[parts["eval"]]}
        else:
            np.savez(self.at("calib.npz"), **model_data.samples(model, self.source, calib, 1))
            self.held = model_data.samples(model, self.source, held, 2)
            np.savez(self.at("eval.npz"), **self.held)

    def at(self, name):
        return os.path.join(self.folder, name)

    def data(self, part, flag, labels_flag):
        if not self.labels:
            return [flag, self.at(part + ".npz")]
        return [flag, self.at(part + ".npy"), labels_flag, self.at(part + "_labels.npy")]

    def quantize(self, args, target, *more):
        return report_of(self.at("r.json"), args.infer_opt, "quantize", self.source, "--opset", "max", "--mixed",
                         "--target", "ort", "--threads", 1, "--no-verify", "--keep-failed",
                         *self.data("calib", "--calib", "--calib-labels"), "--verify-samples", 256,
                         "-o", target, *more)

    def write(self, args, point, target):
        """The file of a point of the front."""
        policy = {"schema": "infer-opt/policy@1",
                  "layers": [{"layer": layer, "precision": p}
                             for layer, p in point["precisions"].items()]}
        with open(self.at("policy.json"), "w") as f:
            json.dump(policy, f)
        self.quantize(args, target, "--policy", self.at("policy.json"))

    def ours(self, args, path):
        """Error of the outputs in our runtime, as the search measures it."""
        accuracy = report_of(self.at("c.json"), args.infer_opt, "compare", self.source, path,
                             "--threads", 1, "--min-sqnr", 0,
                             *self.data("eval", "--data", "--labels"), codes=(0, 1, 6))["accuracy"]
        floats = [o for o in accuracy["outputs"] if "sqnr_db" in o]
        if self.labels:
            return next(o["rows"]["kl"] for o in floats if "rows" in o)
        return float(np.mean([10 ** (-float(o["sqnr_db"]) / 10) for o in floats]))

    def outputs(self, path):
        session = judging.session_of(path, True)
        rank = {i.name: len(i.shape) for i in session.get_inputs()}
        count = len(next(iter(self.held.values())))
        return [session.run(None, {k: v[i:i + 1] if v.ndim == rank[k] else v[i]
                                   for k, v in self.held.items()}) for i in range(count)]

    def theirs(self, path):
        """The same in ONNX Runtime, of its outputs of the FP32 model."""
        golden, got = self.outputs(self.source), self.outputs(path)
        if self.labels:
            a, b = (log_softmax(np.concatenate([o[0].reshape(1, -1) for o in outputs]))
                    for outputs in (golden, got))
            return float((np.exp(a) * (a - b)).sum(1).mean())
        noise = []
        for k, first in enumerate(golden[0]):
            if np.issubdtype(first.dtype, np.floating):
                g, c = (np.concatenate([o[k].ravel() for o in x]).astype(np.float64)
                        for x in (golden, got))
                noise.append(((g - c) ** 2).sum() / max((g ** 2).sum(), 1e-300))
        return float(np.mean(noise))

    def their_times(self, mixed, uniform):
        """Ratios of medians of runs in turns, by block: median, and its 95 % interval."""
        sessions = [judging.session_of(p, True) for p in (mixed, uniform)]
        rank = {i.name: len(i.shape) for i in sessions[0].get_inputs()}
        feeds = {k: v[:1] if v.ndim == rank[k] else v[0] for k, v in self.held.items()}

        def block(session):
            times = []
            until = time.perf_counter() + 0.02
            session.run(None, feeds)  # finds cold caches
            while not times or time.perf_counter() < until:
                start = time.perf_counter()
                session.run(None, feeds)
                times.append(time.perf_counter() - start)
            return float(np.median(times))

        ratios = []
        until = time.perf_counter() + 5
        while len(ratios) < 31 and (len(ratios) < 11 or time.perf_counter() < until):
            turn = [0, 1] if len(ratios) % 2 else [1, 0]
            took = {which: block(sessions[which]) for which in turn}
            ratios.append(took[0] / took[1])
        ratios.sort()
        n = len(ratios)
        # Ranks of the sign test.
        low = max(0, int(n / 2 - 0.98 * n ** 0.5))
        return ratios[n // 2], ratios[low], ratios[n - 1 - low]


def log_softmax(x):
    x = x.astype(np.float64) - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def time_ratio(args, case, mixed, uniform):
    """Of mixed over uniform in our runtime, with its interval."""
    compared = report_of(case.at("t.json"), *args.pause, args.infer_bench, "compare", uniform, mixed,
                         "--threads", 1, codes=(0, 1, 6))
    effect = compared["effect"]
    return 1 + effect["value"], *(1 + e for e in effect["ci95"])


def judge_pair(args, case, name, point, uniform):
    """A row of the table, and whether the promise holds."""
    slug = name.lower()
    files = {"mixed": case.at(f"{case.model}.{slug}.mixed.onnx"),
             "uniform": case.at(f"{case.model}.{slug}.uniform.onnx")}
    case.write(args, point, files["mixed"])
    case.write(args, uniform, files["uniform"])
    size = {k: os.path.getsize(p) for k, p in files.items()}
    ours = {k: case.ours(args, p) for k, p in files.items()}
    theirs = {k: case.theirs(p) for k, p in files.items()}
    speed = time_ratio(args, case, files["mixed"], files["uniform"])
    ort_speed = case.their_times(files["mixed"], files["uniform"])
    faults = []
    if size["mixed"] > size["uniform"]:
        faults.append("larger")
    if ours["mixed"] > ours["uniform"]:
        faults.append("errs more")
    if speed[1] > SLOWER:
        faults.append("slower")
    cells = [case.model, name, f"{size['uniform']:,}", f"{size['mixed']:,}",
             f"{ours['uniform']:.3g}", f"{ours['mixed']:.3g}", f"{theirs['uniform']:.3g}",
             f"{theirs['mixed']:.3g}", "%.3f [%.3f, %.3f]" % speed, "%.3f [%.3f, %.3f]" % ort_speed,
             ", ".join(faults) or "holds"]
    print("| " + " | ".join(cells) + " |", flush=True)
    return {"model": case.model, "beats": name, "size": size, "ours": ours, "theirs": theirs,
            "time": speed, "ort_time": ort_speed, "faults": faults,
            "layers": point["layers"], "said": {"error": point["error"], "ms": point["ms"]}}


def judge(args, model, folder):
    case = Case(model, folder, args.calib, args.eval)
    search = case.quantize(args, case.at("mixed.onnx"), "--budget", args.budget)["search"]
    points = [*search["front"], search["chosen"]]
    rows = []
    for name, names in UNIFORM.items():
        best = None
        for u in (u for u in search["uniform"] if u["name"] in names):
            for p in (p for p in points if u["name"] in p["beats"]):
                if best is None or float(p["error"]) < float(best[0]["error"]):
                    best = p, u
        if best is None:
            print(f"| {model} | {name} | none is said to beat it |", flush=True)
        else:
            rows.append(judge_pair(args, case, name, *best))
    return rows


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"))
    parser.add_argument("infer_opt")
    parser.add_argument("infer_bench")
    parser.add_argument("models", nargs="*", default=DEFAULT)
    parser.add_argument("--budget", default="90s")
    parser.add_argument("--calib", type=int, default=400)
    parser.add_argument("--eval", type=int, default=400)
    parser.add_argument("--pause", nargs=1, default=[])
    parser.add_argument("--keep")
    parser.add_argument("--json")
    args = parser.parse_intermixed_args()
    rows = []
    print("| model | beats | uniform bytes | mixed | error, ours | mixed | ONNX Runtime | mixed | "
          "time | ONNX Runtime | |\n|" + "---|" * 11, flush=True)
    for model in args.models:
        with tempfile.TemporaryDirectory() as temporary:
            folder = os.path.join(args.keep, model) if args.keep else temporary
            os.makedirs(folder, exist_ok=True)
            rows += judge(args, model, folder)
            if args.json:
                with open(args.json, "w") as f:
                    json.dump(rows, f, indent=1)
    held = [r for r in rows if not r["faults"]]
    print(f"{len(held)} of {len(rows)} hold")
    return len(held) < len(rows)


if __name__ == "__main__":
    sys.exit(main())
