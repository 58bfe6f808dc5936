#!/usr/bin/env python3
"""Whether infer-opt gives what ONNX Runtime gives, for any model files.

usage: same_as_onnxruntime.py INFER_OPT [--fuse] [--tolerance T] MODEL...

Inputs are those of MODEL.npz beside the model (an array per input), else random, with open extents
put to 1 (the first) or --extent N (all others, default 64). ONNX Runtime runs the file without its
rewrites, `infer-opt run` on both devices; with --fuse ONNX Runtime also runs what `infer-opt fuse`
writes. Floats may differ by T (1e-4) of the largest value, and by 1e-6 in any case: its sigmoid is
not exact for small results. One line per model, then the numbers; exit 1 when a model differs or is
refused. Outputs that are no tensors are not compared.
"""

import argparse
import os
import subprocess
import tempfile

from judging import difference, np, onnx, read_tensor, session_of

ABSOLUTE = 1e-6
TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_,
         "string": object, **{f"{u}int{n}": np.dtype(f"{u}int{n}") for u in ("", "u")
                              for n in (8, 16, 32, 64)}}


def random_input(spec, r, extent):
    shape = [d if isinstance(d, int) and d > 0 else (1 if i == 0 else extent)
             for i, d in enumerate(spec.shape)]
    dtype = TYPES[spec.type[len("tensor("):-1]]
    if dtype is object:
        return np.array(["a"] * int(np.prod(shape)), dtype=object).reshape(shape)
    values = r.normal(size=shape) if np.dtype(dtype).kind == "f" else r.integers(0, 5, shape)
    return np.asarray(values).astype(dtype)


def inputs_of(path, session, extent):
    stored = os.path.splitext(path)[0] + ".npz"
    if os.path.exists(stored):
        given = np.load(stored, allow_pickle=True)
        return {s.name: given[s.name].astype(object) if given[s.name].dtype.kind == "U"
                else given[s.name] for s in session.get_inputs()}
    r = np.random.default_rng(0)
    return {s.name: random_input(s, r, extent) for s in session.get_inputs()}


def run_ours(infer_opt, path, device, feeds, work):
    out = os.path.join(work, device)
    os.mkdir(out)
    command = [infer_opt, "run", path, "--device", device, "-q", "-o", out, "--format", "pb"]
    for i, (name, value) in enumerate(feeds.items()):
        file = os.path.join(work, "in%d.pb" % i)
        with open(file, "wb") as f:
            f.write(onnx.numpy_helper.from_array(value).SerializeToString())
        command += ["--input", "%s=%s" % (name, file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("exit %d on %s: %s" % (done.returncode, device, done.stderr.strip()))
    got = {}
    for file in os.listdir(out):
        name, value = read_tensor(os.path.join(out, file))
        got[name] = value
    return got


def close_enough(want, got):
    if want.shape != got.shape or want.dtype.kind != "f" or got.dtype != want.dtype:
        return False
    return np.allclose(got, want, rtol=0, atol=ABSOLUTE, equal_nan=True)


def worst(want, got):
    out = 0.0
    for name, value in want.items():
        if not isinstance(value, np.ndarray):
            continue
        other = got[name]
        if value.dtype == object:
            text = [v.decode() if isinstance(v, bytes) else str(v) for v in other.ravel()]
            out = max(out, 0.0 if text == [str(v) for v in value.ravel()] else float("inf"))
        elif not close_enough(value, other):
            out = max(out, difference(value, other))
    return out


def judge(args, path):
    """(verdict, detail)"""
    try:
        session = session_of(path, optimize=False)
        feeds = inputs_of(path, session, args.extent)
        names = [o.name for o in session.get_outputs()]
        want = dict(zip(names, session.run(None, feeds)))
    except Exception as e:
        return "judge fails", str(e).splitlines()[0]
    with tempfile.TemporaryDirectory() as work:
        try:
            found = {d: worst(want, run_ours(args.infer_opt, path, d, feeds, work))
                     for d in ("reference", "cpu")}
            if args.fuse:
                fused = os.path.join(work, "fused.onnx")
                done = subprocess.run([args.infer_opt, "fuse", path, "-q", "-o", fused],
                                      capture_output=True, text=True)
                if done.returncode:
                    return "refused", "fuse: exit %d: %s" % (done.returncode, done.stderr.strip())
                again = session_of(fused, optimize=False).run(None, feeds)
                found["fused"] = worst(want, dict(zip(names, again)))
        except Exception as e:
            return "refused", str(e)
    detail = ", ".join("%s %.1e" % item for item in found.items())
    return ("same" if max(found.values()) <= args.tolerance else "differs"), detail


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("infer_opt")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--fuse", action="store_true")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--extent", type=int, default=64)
    args = parser.parse_args()
    count = {}
    for path in args.models:
        verdict, detail = judge(args, path)
        count[verdict] = count.get(verdict, 0) + 1
        print("%-12s %s  %s" % (verdict, os.path.basename(path), detail), flush=True)
    print(", ".join("%d %s" % (n, v) for v, n in sorted(count.items())))
    return 1 if count.get("differs") or count.get("refused") or not count.get("same") else 0


if __name__ == "__main__":
    raise SystemExit(main())
