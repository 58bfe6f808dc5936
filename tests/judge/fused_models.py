"""ONNX Runtime on a fused model against the stored outputs of the model as it came.

usage: fused_models.py INFER_OPT [MODEL_ID...]

Fuses every model of $INFER_TEST_DATA/models at level 2 and runs the result in ONNX Runtime, as it
is and with its own optimizations on. Exit 77 (a skip) without the data, or without onnx,
onnxruntime and numpy.
"""

import os
import subprocess
import sys
import tempfile

SKIP = 77
TOLERANCE = 1e-3  # max|d| / max|ref| per output; other than float: equal


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIP)


try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as e:
    skip(str(e))

OPTIMIZATIONS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "default": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def tensor_of(path):
    tensor = onnx.TensorProto()
    with open(path, "rb") as f:
        tensor.ParseFromString(f.read())
    return onnx.numpy_helper.to_array(tensor)


def session_of(path, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = OPTIMIZATIONS[level]
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(want, got):
    """max|d| / max|ref|; infinity when the outputs are not of one kind."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return float("inf")
    if not np.issubdtype(want.dtype, np.floating):
        return 0.0 if np.array_equal(want, got) else float("inf")
    want, got = want.astype(np.float64), got.astype(np.float64)
    same = (want == got) | (np.isnan(want) & np.isnan(got))
    if same.all():
        return 0.0
    scale = np.max(np.abs(want[np.isfinite(want)]), initial=0.0)
    worst = np.max(np.abs(want - got)[~same])
    return float(worst / scale) if scale > 0 and np.isfinite(worst) else float("inf")


def worst_difference(session, folder, sets):
    worst = 0.0
    for name in sets:
        at = os.path.join(folder, name)
        feeds = {
            spec.name: tensor_of(os.path.join(at, "input_%d.pb" % i))
            for i, spec in enumerate(session.get_inputs())
        }
        for i, got in enumerate(session.run(None, feeds)):
            want = tensor_of(os.path.join(at, "output_%d.pb" % i))
            worst = max(worst, difference(want, np.asarray(got)))
    return worst


def check(infer_opt, folder, work):
    """(verdict, detail); verdict is one of ok, bad, skipped."""
    fused = os.path.join(work, "fused.onnx")
    command = [infer_opt, "fuse", os.path.join(folder, "model.onnx"), "-o", fused, "-q",
               "--no-verify"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return "bad", "fuse exits with %d: %s" % (done.returncode, done.stderr.strip())
    onnx.checker.check_model(fused)
    sets = sorted(n for n in os.listdir(folder) if n.startswith("test_data_set_"))
    if not sets:
        return "skipped", "has no data set"
    details, passed = [], True
    for level in OPTIMIZATIONS:
        worst = worst_difference(session_of(fused, level), folder, sets)
        passed = passed and worst <= TOLERANCE
        details.append("%s %.2g" % (level, worst))
    return ("ok" if passed else "bad"), "max|d|/max|ref|: " + ", ".join(details)


def main():
    data = os.environ.get("INFER_TEST_DATA")
    if not data:
        skip("INFER_TEST_DATA is not set")
    models = os.path.join(data, "models")
    wanted = sys.argv[2:] or sorted(os.listdir(models))
    count = {}
    for name in wanted:
        with tempfile.TemporaryDirectory() as work:
            try:
                verdict, detail = check(sys.argv[1], os.path.join(models, name), work)
            except Exception as e:  # a file that the judge refuses is a failure of ours
                verdict, detail = "bad", str(e)
        count[verdict] = count.get(verdict, 0) + 1
        print("%-8s %s  %s" % (verdict, name, detail), flush=True)
    print(", ".join("%d %s" % (n, v) for v, n in sorted(count.items())))
    if count.get("bad"):
        sys.exit(1)
    if not count.get("ok"):
        sys.exit("no model was compared")


main()
