"""ONNX Runtime on our export equals ONNX Runtime on the original, optimizations off.

usage: export_equals_original.py REEXPORT [MODEL_ID...]

REEXPORT is the program of tests/judge/reexport.cc. Models and their inputs are those of
$INFER_TEST_DATA/models. Exit 77 (a skip) without that, or without onnx, onnxruntime and numpy.
"""

import os
import subprocess
import sys
import tempfile

SKIP = 77
TOLERANCE = 1e-6  # max|d| / max|ref| per output; other than float: equal


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIP)


try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as e:
    skip(str(e))


def load_inputs(folder, session):
    feeds = {}
    for i, spec in enumerate(session.get_inputs()):
        path = os.path.join(folder, "input_%d.pb" % i)
        tensor = onnx.TensorProto()
        with open(path, "rb") as f:
            tensor.ParseFromString(f.read())
        feeds[tensor.name or spec.name] = onnx.numpy_helper.to_array(tensor)
    names = {spec.name for spec in session.get_inputs()}
    if set(feeds) != names:  # nameless or differently named: by position
        feeds = dict(zip([s.name for s in session.get_inputs()], feeds.values()))
    return feeds


def session_of(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
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


def check(reexport, folder, work):
    """(verdict, detail); verdict is one of ok, unsupported, bad, skipped."""
    original = os.path.join(folder, "model.onnx")
    exported = os.path.join(work, "m.onnx")
    done = subprocess.run([reexport, original, exported], stderr=subprocess.PIPE, text=True)
    if done.returncode == 4:
        return "unsupported", done.stderr.strip().split("\n", 2)[1:2]
    if done.returncode != 0:
        return "bad", done.stderr.strip()
    onnx.checker.check_model(exported)
    a, b = session_of(original), session_of(exported)
    if [x.name for x in a.get_outputs()] != [x.name for x in b.get_outputs()]:
        return "bad", "other outputs"
    worst, sets = 0.0, 0
    for name in sorted(os.listdir(folder)):
        if not name.startswith("test_data_set_"):
            continue
        feeds = load_inputs(os.path.join(folder, name), a)
        for want, got in zip(a.run(None, feeds), b.run(None, feeds)):
            worst = max(worst, difference(np.asarray(want), np.asarray(got)))
        sets += 1
    if sets == 0:
        return "skipped", "loads, but has no data set"
    return ("ok" if worst <= TOLERANCE else "bad"), "max|d|/max|ref| %.2g over %d sets" % (worst, sets)


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
        print("%-12s %s %s" % (verdict, name, detail), flush=True)
    print(", ".join("%d %s" % (n, v) for v, n in sorted(count.items())))
    if count.get("bad"):
        sys.exit(1)
    if not count.get("ok"):
        sys.exit("no model was compared")


main()
