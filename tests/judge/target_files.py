#!/usr/bin/env python3
"""`infer-opt inspect --target` beside the runtimes themselves.

usage: target_files.py INFER_OPT [--files FOLDER] [MODEL...]

Writes shared models in every form of `infer-opt quantize` (or takes the files of FOLDER, NAME.onnx).
For ONNX Runtime (the judge's own, and each folder of INFER_JUDGE_ORT, separated by ':', that holds
another version as `pip install --target` leaves it) and OpenVINO: where --target has no error the
runtime must load the file and, in ONNX Runtime, its rewritten graph must hold exactly the integer
kernels that --target foretells; where it has an error, the runtime must refuse it. What
OpenVINO computes must be within LEAST_DB of what ONNX Runtime computes without its rewrites, unless
--target tells of a difference. Prints a line per runtime and one per file that differs. Exits 1 when one does, 77 with nothing to judge."""
import collections
import json
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx

KERNELS = ("QLinearConv QLinearMatMul MatMulIntegerToFloat QGemm MatMulInteger ConvInteger "
           "DynamicQuantizeMatMul DynamicQuantizeLSTM MatMulNBits GatherBlockQuantized QLinearAdd "
           "QLinearMul QLinearConcat QLinearAveragePool QLinearGlobalAveragePool QLinearSigmoid "
           "QLinearLeakyRelu QLinearSoftmax QLinearWhere").split()
# How ONNX Runtime's rewrites name one and the same integer product of a dynamic file.
SAME = {"DynamicQuantizeMatMul": "MatMulInteger", "MatMulIntegerToFloat": "MatMulInteger"}
# Run in a process for each file, as a runtime may crash: a copy of one that has loaded the runtime, which takes most of the time.
SERVER = """
import json, os, signal, sys, traceback
program = compile(sys.argv[1], "program", "exec")
exec(sys.argv[1].strip().splitlines()[0])  # its imports
for line in sys.stdin:
    path, work = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(os.path.join(work, name), os.O_WRONLY | os.O_CREAT, 0o600), number)
        signal.alarm(300)
        sys.argv, code = ["", path, work], 1
        try:
            exec(program, {})
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
ORT = """
import collections, json, os, sys, onnx, onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level = 4
options.intra_op_num_threads = 1
loaded = ort.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
options.optimized_model_filepath = os.path.join(sys.argv[2], "rewritten.onnx")
try:
    ort.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
    graph = onnx.load(options.optimized_model_filepath, load_external_data=False).graph
    print(json.dumps(collections.Counter(n.op_type for n in graph.node)))
except Exception as e:  # 1.20 and 1.21 cannot write what some rewrites make
    print("null")
"""
OPENVINO = """
import math, sys, openvino, numpy as np, onnxruntime as ort
one = {"INFERENCE_NUM_THREADS": 1}
openvino.Core().compile_model(sys.argv[1], "CPU", one)
options = ort.SessionOptions()
options.log_severity_level, options.intra_op_num_threads = 4, 1
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
try:
    session = ort.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    feeds = {}
    for i in session.get_inputs():
        dims = [d if isinstance(d, int) else 1 for d in i.shape]
        feeds[i.name] = (random.standard_normal(dims).astype(np.float32) if i.type == "tensor(float)"
                         else random.integers(0, 2, dims).astype(i.type[7:-1]))
    want = session.run(None, feeds)[0].astype(float)
except Exception as e:  # what ONNX Runtime does not run is not compared
    want = None
if want is None:
    print("null")
else:
    f32 = openvino.Core().compile_model(sys.argv[1], "CPU", {**one, "INFERENCE_PRECISION_HINT": "f32"})
    got = np.asarray(f32(feeds)[0]).astype(float)
    signal, noise = (want**2).sum(), ((want - got)**2).sum()
    print(10 * math.log10(signal / noise) if noise and signal else 200.0)
"""
# OpenVINO rounds some codes another way; what is lost costs more. Above the second number nothing is.
LEAST_DB, SAME_DB = 15, 100
# Feature of a processor -> the instruction set that OpenVINO and its oneDNN are held to.
LIMITS = {"avx512_bf16": "AVX512_CORE_BF16", "amx_int8": ""}
CIFAR = ["--data", "cifar10_dev_images_u8_nhwc.npy", "--preprocess",
         "layout=nchw,scale=1/255,mean=.4914:.4822:.4465,std=.2023:.1994:.2010"]
STATIC = {"resnet20_cifar": CIFAR, "vit_ibp_cifar": CIFAR,
          "matchboxnet_kws": ["--data", "fsdd_dev_mfcc_f32.npy"]}
OTHERS = ["resnet20_cifar", "vit_ibp_cifar", "stories260k_a", "dtln_1"]
STATIC_FORMS = {
    "qdq": [], "s8": ["--activations", "s8"], "u8w": ["--weights", "u8"], "pt": ["--per-tensor"],
    "qop": ["--format", "qoperator"], "qoppt": ["--format", "qoperator", "--per-tensor"],
    "u16": ["--activations", "u16"], "s16": ["--activations", "s16", "--symmetric-activations"],
}
OTHER_FORMS = {
    **{f"nb{b}": ["--mode", "weight-only", "--bits", str(b)] for b in (2, 4, 8)},
    **{f"wq{b}": ["--mode", "weight-only", "--format", "qdq", "--bits", str(b)] for b in (4, 8)},
    **{m: ["--mode", m] for m in ("fp16", "bf16", "dynamic")},
}


def make_files(tool, models, folder):
    root = judging.data_folder()

    def make(model, form, options):
        source = os.path.join(root, "models", model, "model.onnx")
        if (models and model not in models) or not os.path.exists(source):
            return
        path = os.path.join(folder, f"{model}.{form}.onnx")
        code, error = judging.run_quietly([tool, "quantize", source, "-o", path, "--opset", "max", "--quiet",
                                           *options])
        if code:
            sys.exit(f"{model} {form}: {error}")

    for model, data in STATIC.items():
        data = [os.path.join(root, "labelled", d) if d.endswith(".npy") else d for d in data]
        for form, options in STATIC_FORMS.items():
            make(model, form, [*data, "--samples", "16", "--recipe", "none", "--no-verify",
                               *options])
    for model in OTHERS:
        for form, options in OTHER_FORMS.items():
            make(model, form, options)
    for scale in (1e-7, 1.2e-7, 1.22e-7, 1e-3):
        for sum_of in ("Add", "Sub", "Mul"):
            onnx.save(sum_of_rounded(scale, sum_of), os.path.join(folder, f"rounded.{sum_of}_{scale}.onnx"))
    for beside in ("Expand", "Relu", "Constant"):
        for bias in ("operand", "node", "none"):
            onnx.save(patches(beside, bias), os.path.join(folder, f"patches.{beside}_{bias}.onnx"))


def sum_of_rounded(scale, op):
    """A value of small or usual size, rounded to codes with a zero point, and joined with one in f32."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    constants = {"scale": np.float32(scale), "zero": np.uint8(83), "size": np.float32(30 * scale)}
    nodes = [node("Mul", ["x", "size"], ["small"]), node("QuantizeLinear", ["small", "scale", "zero"], ["codes"]),
             node("DequantizeLinear", ["codes", "scale", "zero"], ["rounded"]),
             node("Transpose", ["rounded"], ["moved"], perm=[0, 2, 1]),
             node("Mul", ["z", "size"], ["other"]), node("Sin", ["other"], ["sine"]), node(op, ["moved", "sine"], ["y"])]
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", 1, [1, 4, 8]), info("z", 1, [1, 8, 4])], [info("y", 1, [1, 8, 4])],
        [onnx.numpy_helper.from_array(np.asarray(a), k) for k, a in constants.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def patches(beside, bias):
    """A quantized convolution with a bias as its operand or in a node of its own, its rounded result joined with a
    token expanded to the batch, with a computed value, or with a constant."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    random = np.random.default_rng(3)
    constants = {"s": np.float32(0.03), "z": np.uint8(128), "t": np.float32(0.1), "u": np.uint8(120),
                 "w": random.integers(-127, 128, (8, 3, 4, 4)).astype(np.int8), "ws": random.uniform(.005, .02, 8).astype(np.float32),
                 "to": np.array([0, 8, -1]), "token": random.standard_normal((1, 4, 8)).astype(np.float32),
                 "batch": np.array([0]), "rest": np.array([4, 8])}
    if bias != "none":
        constants["b"] = (random.standard_normal(8 if bias == "operand" else (1, 8, 1, 1)) * 3).astype(np.float32)
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["xq"]), node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
             node("DequantizeLinear", ["w", "ws"], ["wd"], axis=0),
             node("Conv", ["xd", "wd"] + ["b"] * (bias == "operand"), ["conv"], kernel_shape=[4, 4], strides=[4, 4])]
    if bias == "node":
        nodes.append(node("Add", ["conv", "b"], ["biased"]))
    nodes += [node("QuantizeLinear", ["biased" if bias == "node" else "conv", "t", "u"], ["yq"]),
              node("DequantizeLinear", ["yq", "t", "u"], ["yd"]), node("Reshape", ["yd", "to"], ["flat"]),
              node("Transpose", ["flat"], ["rows"], perm=[0, 2, 1])]
    inputs = [info("x", 1, ["N", 3, 8, 8])]
    if beside == "Expand":
        nodes += [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "batch"], ["n"]),
                  node("Concat", ["n", "rest"], ["all"], axis=0), node("Expand", ["token", "all"], ["other"])]
    elif beside == "Relu":
        inputs.append(info("o", 1, ["N", 4, 8]))
        nodes.append(node("Relu", ["o"], ["other"]))
    nodes.append(node("Concat", ["token" if beside == "Constant" else "other", "rows"], ["y"], axis=1))
    graph = onnx.helper.make_graph(nodes, "g", inputs, [info("y", 1, ["N", 8, 8])],
                                   [onnx.numpy_helper.from_array(np.asarray(a), k) for k, a in constants.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def runtimes():
    """(target, program of a child, its environment) of everything that is installed."""
    for folder in [""] + [f for f in os.environ.get("INFER_JUDGE_ORT", "").split(":") if f]:
        env = dict(os.environ, **({"PYTHONPATH": folder} if folder else {}))
        said = subprocess.run([sys.executable, "-c", "import onnxruntime as o; print(o.__version__)"],
                              env=env, capture_output=True, text=True)
        if said.returncode == 0:
            yield "ort-" + ".".join(said.stdout.split(".")[:2]), ORT, env
    if subprocess.run([sys.executable, "-c", "import openvino"], capture_output=True).returncode == 0:
        yield "openvino", OPENVINO, dict(os.environ)


def foretold(tool, path, target):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([tool, "inspect", path, "--target", target, "--quiet", "--json",
                               out.name], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{path}: inspect --target {target}: {done.stderr.strip()}")
        report = json.load(open(out.name))["target"]
    if report["fits"] != (done.returncode == 0):
        sys.exit(f"{path}: exit {done.returncode}, but fits is {report['fits']}")
    return report


def counted(operators, dynamic):
    kernels = collections.Counter()
    for op, n in operators.items():
        if op in KERNELS:
            kernels[SAME.get(op, op) if dynamic else op] += n
    return dict(kernels)


def features():
    with open("/proc/cpuinfo") as f:
        return next((set(line.split()[2:]) for line in f if line.startswith("flags")), set())


Loaded = collections.namedtuple("Loaded", "returncode stdout stderr")


class Loader:
    """A runtime that loads files, each in a process of its own."""

    def __init__(self, program, env):
        self.server = subprocess.Popen([sys.executable, "-c", SERVER, program], env=env, text=True, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)

    def load(self, path):
        with tempfile.TemporaryDirectory() as work:
            self.server.stdin.write(json.dumps([path, work]) + "\n")
            self.server.stdin.flush()
            code = int(self.server.stdout.readline())
            said = []
            for name in ("stdout", "stderr"):
                with open(os.path.join(work, name), errors="replace") as f:
                    said.append(f.read())
            return Loaded(code, *said)

    def close(self):
        self.server.stdin.close()
        self.server.wait()


def load_once(program, path, env):
    """In a process that starts anew: libraries read some variables when they are loaded."""
    loader = Loader(program, env)
    try:
        return loader.load(path)
    finally:
        loader.close()


def judge(tool, path, target, program, env, loader):
    """What differs; "" for nothing; None where only other processors can say."""
    report = foretold(tool, path, target)
    errors = [f for f in report["findings"] if f["severity"] == "error"]
    ran = loader.load(path)
    if ran.returncode:
        return "" if errors else "refused, but no error was foretold: " + ran.stderr.strip()[-300:]
    if errors and all(f["processors"] for f in errors):
        here = {f["processors"] for f in errors} & features()
        if not here:
            return None
        limited = [load_once(program, path, dict(env, ONEDNN_MAX_CPU_ISA=LIMITS[f], OV_CPU_MAX_ISA=LIMITS[f])) for f in here]
        if any(r.returncode for r in limited):
            return ""
    if errors:
        return f"taken, but foretold was: {errors[0]['node']}: {errors[0]['what']}"
    operators = json.loads(ran.stdout.splitlines()[-1])
    if operators is None:
        return ""
    if target == "openvino":
        told = any(f["severity"] == "differs" for f in report["findings"])
        if operators < LEAST_DB and not told:
            return f"{operators:.1f} dB beside ONNX Runtime, of which nothing was foretold"
        return f"{operators:.1f} dB, but foretold was a difference" if operators > SAME_DB and told else ""
    dynamic = {"MatMulInteger"} & set(report["integer_kernels"])
    want, got = counted(report["integer_kernels"], dynamic), counted(operators, dynamic)
    return "" if want == got else f"foretold {want}, there is {got}"


def main():
    args = sys.argv[1:]
    if not args or args[0].startswith("-"):
        sys.exit(__doc__)
    tool, folder, models = args[0], "", args[1:]
    if models[:1] == ["--files"]:
        folder, models = models[1], []
    known = subprocess.run([tool, "inspect", "--help"], capture_output=True, text=True).stdout
    failed = judged = 0
    with tempfile.TemporaryDirectory() as scratch:
        if not folder:
            folder = scratch
            make_files(tool, models, folder)
        files = sorted(f for f in os.listdir(folder) if f.endswith(".onnx"))
        for target, program, env in runtimes():
            if target not in known:
                print(f"{target}: not in the table, not judged")
                continue
            differing = elsewhere = 0
            loader = Loader(program, env)
            for name in files:
                why = judge(tool, os.path.join(folder, name), target, program, env, loader)
                judged += 1
                elsewhere += why is None
                if why:
                    differing += 1
                    print(f"FAIL {target} {name}: {why}", flush=True)
            loader.close()
            failed += differing
            print(f"{target}: {len(files) - differing - elsewhere} of {len(files)} files as foretold"
                  + f"; {elsewhere} not judged: errors of other processors" * (elsewhere > 0),
                  flush=True)
    if not judged:
        judging.skip("no file, or no runtime of the table")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
