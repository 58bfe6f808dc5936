#!/usr/bin/env python3
"""What pruning costs a language model with a cache: divergence and equal first choices (docs/pruning.md).

    tests/judge/prune_text.py INFER_OPT [--rows 'a;b'] [--work FOLDER]      (needs numpy, onnxruntime)

stories260k_a of INFER_TEST_DATA, on texts sampled from it: 128 calibrate, 200 of another seed judge; of each the first 32 tokens
are the cache, the next 32 are scored. Told is the Kullback-Leibler divergence per token of the dense model's distribution from the
pruned model's and the share of tokens with the same first choice, both by ONNX Runtime. What FOLDER has is not made again."""
import argparse
import os
import pathlib
import subprocess

import judging
import model_data
from judging import np

MODEL = "stories260k_a"
CALIBRATE, JUDGE = (128, 11), (200, 22)  # samples, seed
UNIFORM = ["--allocation", "uniform"]
METHODS = {"auto": [], "auto, uniform": UNIFORM,
           **{f"{m}, uniform": ["--method", m, *UNIFORM] for m in ("sparsegpt", "wanda", "magnitude")}}
ROWS = {"50 %": ("prune", ["--sparsity", "50%"], METHODS), "2:4": ("prune", ["--nm", "2:4"], METHODS)}
for goal in (85, 70):
    ROWS[f"structured {goal} %"] = ("prune", ["--structured", "--flops", f"{goal}%"], {
        "bare": [], "500 steps": ["--fine-tune-steps", "500"]})
ROWS["50 %, trained"] = ("prune", ["--sparsity", "50%"], {"500 steps": ["--fine-tune-steps", "500"]})
for recipe in ("fast", "balanced", "best"):
    ROWS[f"INT8 {recipe}"] = ("quantize", ["--recipe", recipe], {"": []})
ROWS["INT8 mixed"] = ("quantize", ["--mixed", "--max-drop", "2%"], {"": []})


def logarithms(x):
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Judge:
    def __init__(self, tool, work):
        self.tool, self.work = tool, work
        self.source = os.path.join(judging.data_folder(), "models", MODEL, "model.onnx")
        work.mkdir(parents=True, exist_ok=True)
        for role, (count, seed) in (("calib", CALIBRATE), ("judge", JUDGE)):
            path = work / f"{role}.npz"
            if not path.exists():
                np.savez(path, **model_data.samples(MODEL, self.source, count, seed))
        self.samples = dict(np.load(work / "judge.npz"))
        self.golden = self.scores(self.source)

    def scores(self, path):
        session = judging.session_of(str(path), True)
        rows = []
        for i in range(JUDGE[0]):
            rows.append(logarithms(session.run(None, {k: v[i:i + 1] for k, v in self.samples.items()})[0]))
        return np.concatenate([r.reshape(-1, r.shape[-1]) for r in rows])

    def row(self, name, command, flags):
        out = self.work / (name.replace(" ", "").replace(",", "-").replace(":", "-").replace("%", "") + ".onnx")
        if not out.exists():
            ran = subprocess.run([self.tool, command, self.source, "-o", out, "--calib", self.work / "calib.npz", "--eval", self.work / "judge.npz",
                                  "--quiet", "--keep-failed", *flags], capture_output=True, text=True)
            if not out.exists():
                return ran.stderr.strip().splitlines()[-1]
        got = self.scores(out)
        kl = (np.exp(self.golden) * (self.golden - got)).sum(-1)
        per_text = kl.reshape(JUDGE[0], -1).mean(1)
        same = (got.argmax(-1) == self.golden.argmax(-1)).mean()
        error = 1.96 * per_text.std(ddof=1) / np.sqrt(JUDGE[0])
        digits = 3 if kl.mean() >= 0.1 else 5
        return f"{kl.mean():.{digits}f} +- {error:.{digits}f}, {100 * same:.1f} %"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool")
    p.add_argument("--rows", help="names, separated by ;")
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/prune_text"))
    args = p.parse_args()
    judge = Judge(os.path.abspath(args.tool), args.work)
    for name in args.rows.split(";") if args.rows else ROWS:
        command, flags, columns = ROWS[name]
        for column, more in columns.items():
            print(f"| {name} | {column} | {judge.row(name + ' ' + column, command, [*flags, *more])} |", flush=True)


if __name__ == "__main__":
    main()
