#!/usr/bin/env python3
"""Runs files whose channels `infer-opt prune --structured` removed, whose products `--low-rank` split, or whose zeros `--sparse-file` leaves out, in
ONNX Runtime and OpenVINO.

usage: structured_files.py INFER_OPT [--every N] [MODEL...]

Each shared model loses a third of its FLOPs or, where its extents are open, of its bytes, chosen without
data; those of LOW_RANK have products split at a quarter of their rank, fitted to random numbers. ONNX Runtime with and without its own rewrites, OpenVINO where it is installed, and our cpu backend
(which reads no sparse file) must give the same outputs for random inputs, as nearly as ONNX Runtime with and without its rewrites agrees on the
dense model. Exits 1 when one fails, 77 when there is nothing to judge."""
import os
import subprocess
import sys
import tempfile

import judging
from judging import np

MODELS = ["resnet20_cifar", "squeezenet11_fp32", "vit_ibp_cifar", "mnist_cntk8", "cifar_resnet_2b", "yunet_n_320",
          "ultraface_rfb320", "dnsmos", "autoencoder1d", "super_resolution"]
LOW_RANK = ["vit_ibp_cifar", "squeezenet11_fp32", "mnist_fc_256x4", "autoencoder1d"]
SPARSE = ["squeezenet11_fp32", "vit_ibp_cifar"]
SAMPLES = 24  # of random numbers, for low rank
TOLERANCE = 2e-4  # of an output's largest number: sums in another order
MOST_OF_DENSE = 10  # times what the dense model's own output differs by, where that is more (sigmoids near 0)


def execute(arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def ours(infer_opt, path, feeds, folder):
    out = os.path.join(folder, "ours")
    arguments = [infer_opt, "run", path, "-o", out, "-q"]
    for i, (name, value) in enumerate(feeds.items()):
        file = os.path.join(folder, f"input{i}.npy")
        np.save(file, value)
        arguments += ["-i", f"{name}={file}"]
    code, said = execute(arguments)
    if code:
        raise RuntimeError(said)
    return out


def distance(a, b):
    if a.shape != b.shape:
        return np.inf
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.abs(a - b).max(initial=0) / max(np.abs(a).max(initial=0), 1e-30))


def narrowed(infer_opt, source, small, folder):
    code, said = execute([infer_opt, "prune", source, "-o", small, "--structured", "--flops", "67%", "--no-verify"])
    if code and "FLOPs of the model are not known" in said:
        code, said = execute([infer_opt, "prune", source, "-o", small, "--structured", "--max-size", "75%"])
    return code, said


def split(infer_opt, source, small, folder):
    spec = judging.session_of(source, False).get_inputs()[0]
    shape = [d if isinstance(d, int) else 1 for d in spec.shape[1:]]
    if spec.shape[0] not in (1, None) and isinstance(spec.shape[0], int):
        shape = [spec.shape[0], *shape]
    rows = os.path.join(folder, "rows.npy")
    np.save(rows, np.random.default_rng(5).standard_normal([SAMPLES, *shape]).astype(np.float32))
    return execute([infer_opt, "prune", source, "-o", small, "--low-rank", "--rank", "25%", "--calib", rows, "--no-verify"])


def sparse(infer_opt, source, small, folder):
    """80 % zeros: most f32 weights are smaller as values and places."""
    code, said = execute([infer_opt, "prune", source, "-o", small, "--sparsity", "80%", "--allocation", "uniform", "--sparse-file", "--no-verify"])
    if code == 0 and os.path.getsize(small) > 0.75 * os.path.getsize(source):
        return 1, f"{os.path.getsize(small)} of {os.path.getsize(source)} bytes"
    return code, said


def judge(infer_opt, model, folder, way):
    source = os.path.join(judging.data_folder(), "models", model, "model.onnx")
    small = os.path.join(folder, "small.onnx")
    code, said = way(infer_opt, source, small, folder)
    if code:
        return False, said.strip().splitlines()[-1]
    sessions = {"onnxruntime": judging.session_of(small, True), "as written": judging.session_of(small, False)}
    base = sessions["as written"]
    rng = np.random.default_rng(3)
    feeds = {}
    for spec in base.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in spec.shape]
        feeds[spec.name] = rng.standard_normal(shape).astype(np.float32)
    want = base.run(None, feeds)
    answers = {name: s.run(None, feeds) for name, s in sessions.items()}
    try:
        if way is sparse:
            raise ImportError
        import openvino
        compiled = openvino.Core().compile_model(small, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        made = compiled(feeds)
        answers["openvino"] = [made[i] for i in range(len(want))]
    except ImportError:
        if way is not sparse:
            print("  openvino is not installed")
    out = ours(infer_opt, small, feeds, folder)
    files = sorted(f for f in os.listdir(out) if f.endswith(".npy"))
    by_name = {f[:-4]: np.load(os.path.join(out, f)) for f in files}
    names = [o.name for o in base.get_outputs()]
    if set(names) <= set(by_name):
        answers["ours"] = [by_name[n] for n in names]
    elif len(names) == len(files):
        answers["ours"] = [np.load(os.path.join(out, f)) for f in files]
    dense = [judging.session_of(source, optimize).run(None, feeds) for optimize in (True, False)]
    allowed = [max(TOLERANCE, MOST_OF_DENSE * distance(a, b)) for a, b in zip(*dense)]
    far = {name: [distance(a, b) for a, b in zip(want, got)] for name, got in answers.items()}
    text = ", ".join(f"{name} {max(d):.1e}" for name, d in far.items())
    return "ours" in answers and all(x <= y for d in far.values() for x, y in zip(d, allowed)), text


def main():
    step = judging.step_of_arguments()
    infer_opt, wanted = sys.argv[1], sys.argv[2:]
    data = judging.data_folder()
    failed = judged = 0
    for way, model in [(narrowed, m) for m in MODELS[::step]] + [(split, m) for m in LOW_RANK[::step]] + [(sparse, m) for m in SPARSE[::step]]:
        if wanted and model not in wanted:
            continue
        if not os.path.exists(os.path.join(data, "models", model, "model.onnx")):
            continue
        judged += 1
        with tempfile.TemporaryDirectory() as folder:
            passed, text = judge(infer_opt, model, folder, way)
        print(f"{'pass' if passed else 'FAIL'} {model}, {way.__name__}: {text}", flush=True)
        failed += not passed
    if not judged:
        judging.skip("no shared model")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
