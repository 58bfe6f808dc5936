"""What the judges share: ONNX Runtime sessions, stored data sets, and the verdict over all models.

A script imports numpy, onnx and onnxruntime from here: where one is missing it ends with exit 77, a
skip for CTest.
"""

import os
import subprocess
import sys
import tempfile

SKIP = 77


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIP)


try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as e:
    skip(str(e))


def ort_saturates():
    """Whether ONNX Runtime's sums of uint8 by int8 saturate on this processor (docs/adr/0051)."""
    with open("/proc/cpuinfo") as f:
        flags = next((line.split() for line in f if line.startswith("flags")), [])
    return "avx2" in flags and not {"avx512_vnni", "avx_vnni"} & set(flags)


def data_folder():
    return os.environ.get("INFER_TEST_DATA") or skip("INFER_TEST_DATA is not set")


def session_of(path, optimize):
    """A session on one thread, with ONNX Runtime's own rewrites or as the file says."""
    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def read_tensor(path):
    """(name, array) of a stored TensorProto; the name may be empty."""
    tensor = onnx.TensorProto()
    with open(path, "rb") as f:
        tensor.ParseFromString(f.read())
    return tensor.name, onnx.numpy_helper.to_array(tensor)


def data_sets(folder):
    """The folders of inputs and outputs beside a model."""
    names = sorted(n for n in os.listdir(folder) if n.startswith("test_data_set_"))
    return [os.path.join(folder, n) for n in names]


def load_inputs(data_set, session):
    names = [spec.name for spec in session.get_inputs()]
    feeds = {}
    for i, name in enumerate(names):
        stored, value = read_tensor(os.path.join(data_set, "input_%d.pb" % i))
        feeds[stored or name] = value
    if set(feeds) != set(names):  # differently named: by position
        feeds = dict(zip(names, feeds.values()))
    return feeds


def difference(want, got):
    """max|d| / max|ref|; infinity when the outputs are not of one kind; other than float: equal."""
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


def step_of_arguments():
    """N of `--every N`, which is taken off the command line: every N-th of what is judged. 1 without."""
    if "--every" not in sys.argv:
        return 1
    at = sys.argv.index("--every")
    step = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return step


def judge_models(check):
    """Calls check(program, model's folder, scratch folder) for the models that the command line
    names (PROGRAM [--every N] [MODEL_ID...]), else for all or every N-th; exits with 1 unless all that ran are ok.

    It returns (verdict, detail), the verdict one of ok, bad, unsupported and skipped."""
    models, step = os.path.join(data_folder(), "models"), step_of_arguments()
    if len(sys.argv) < 2:
        sys.exit("the program under test is missing")
    program, wanted = sys.argv[1], sys.argv[2:] or sorted(os.listdir(models))[::step]
    count = {}
    for name in wanted:
        with tempfile.TemporaryDirectory() as work:
            try:
                verdict, detail = check(program, os.path.join(models, name), work)
            except Exception as e:  # a file that the judge refuses is a failure of ours
                verdict, detail = "bad", str(e)
        count[verdict] = count.get(verdict, 0) + 1
        print("%-12s %s %s" % (verdict, name, detail), flush=True)
    print(", ".join("%d %s" % (n, v) for v, n in sorted(count.items())))
    if count.get("bad"):
        sys.exit(1)
    if not count.get("ok"):
        sys.exit("no model was compared")


def run_quietly(command):
    """(exit code, what it said on stderr)"""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr.strip()
