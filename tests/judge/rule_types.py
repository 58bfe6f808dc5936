#!/usr/bin/env python3
"""Fusion rules on other element types than f32: what ONNX Runtime ran before, it runs behind them.

usage: rule_types.py INFER_OPT RULE_EXAMPLES [--every N]

RULE_EXAMPLES writes the examples that each rule fires on, with f64, f16 and integers in the place of f32. Those that ONNX
Runtime takes as they come are fused and run by it again: it has kernels for some types of an operator only, whatever the
standard allows. --every N takes every N-th file. Exit 1 where it refuses a fused file or other numbers come out, 77 without onnxruntime.
"""

import collections
import os
import subprocess
import sys
import tempfile

import judging
from judging import np
from same_as_onnxruntime import inputs_of

EXTENT = 6  # of open ones, but the first
TOLERANCE = {np.dtype(np.float16): 2.0 ** -7}  # of the largest element; both sides round each step


def ran(path, feeds=None):
    """(inputs, outputs) of ONNX Runtime without its rewrites, or why it does not run the file."""
    try:
        session = judging.session_of(path, optimize=False)
        feeds = feeds or inputs_of(path, session, EXTENT)
        return feeds, session.run(None, feeds), ""
    except Exception as e:
        return None, None, str(e).splitlines()[0]


def is_close(want, got):
    limit = TOLERANCE.get(want.dtype, 1e-5)
    return judging.difference(want, got) <= limit or np.allclose(want, got, rtol=0, atol=1e-6)


def verdict(infer_opt, path, fused):
    feeds, wanted, why = ran(path)
    if wanted is None:
        return "not run as it comes", ""
    code, said = judging.run_quietly([infer_opt, "fuse", path, "-o", fused, "--no-verify", "-q"])
    if code:
        return "bad", "fuse ended with %d: %s" % (code, said)
    _, got, why = ran(fused, feeds)
    if got is None:
        return "bad", "refused: " + why
    for want, have in zip(wanted, got):
        if not isinstance(want, np.ndarray):
            continue
        if want.dtype != have.dtype or want.shape != have.shape or not is_close(want, have):
            return "bad", "other numbers: %s and %s" % (want.reshape(-1)[:4], np.asarray(have).reshape(-1)[:4])
    return "ok", ""


def main():
    judging.ort.set_default_logger_severity(4)  # what it refuses is told here
    step = judging.step_of_arguments()
    infer_opt, examples = sys.argv[1:3]
    count = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([examples, folder], check=True)
        for name in sorted(os.listdir(folder))[::step]:
            what, detail = verdict(infer_opt, os.path.join(folder, name), os.path.join(folder, "fused"))
            count[what] += 1
            if what == "bad":
                print("bad  %s: %s" % (name.removesuffix(".onnx"), detail), flush=True)
    print(", ".join("%d %s" % (n, v) for v, n in sorted(count.items())))
    sys.exit(1 if count["bad"] or not count["ok"] else 0)


if __name__ == "__main__":
    main()
