"""Random one-operator models against what NumPy says they mean, on both backends.

usage: numpy_semantics.py RUN_CASES [--seed N] [--count N] [--only OPERATOR] [--keep]

RUN_CASES is the program of tests/judge/run_cases.cc. Ranks 0 to 5, extents 0 to 4, all integer and
float types that NumPy has, axes and positions of either sign, empty tensors and scalars. Small
integer operands (axes, shapes, ends) are initializers in one half of the cases, inputs in the other.
Prints per operator the number of cases and the worst difference. Exit 1 when a case fails, 77 (a
skip) without onnx and numpy.
"""

import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile

# First: it ends with a skip where a package is missing.
from judging import difference, np, onnx

import numpy_cases
import numpy_cases_move  # its cases register themselves
from onnx import TensorProto, helper, numpy_helper

OPSET = 21
TOLERANCE = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-12}


def proto_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def write_case(prefix, case, rng):
    """The model and its inputs. Operands of int64 with a rank up to 1 may become initializers."""
    names, inputs, initializers, feeds = [], [], [], []
    for i, value in enumerate(case.inputs):
        if value is None:
            names.append("")
            continue
        name = "i%d" % i
        names.append(name)
        small = value.dtype == np.int64 and value.ndim <= 1 and i > 0
        if small and rng.random() < 0.5:
            initializers.append(numpy_helper.from_array(value, name))
        else:
            dims = list(value.shape)
            if rng.random() < 0.5:  # open extents: shapes are then known in the run only
                dims = ["s%d_%d" % (i, k) if rng.random() < 0.5 else d for k, d in enumerate(dims)]
            inputs.append(helper.make_tensor_value_info(name, proto_type(value.dtype), dims))
            feeds.append(value)
    outputs = ["o%d" % i for i in range(len(case.outputs))]
    infos = [
        helper.make_tensor_value_info(n, proto_type(w.dtype), None)
        for n, w in zip(outputs, case.outputs)
    ]
    node = helper.make_node(case.op, names, outputs, **case.attrs)
    graph = helper.make_graph([node], "g", inputs, infos, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.save(model, prefix + ".onnx")
    for i, value in enumerate(feeds):
        with open("%s_in_%d.pb" % (prefix, i), "wb") as f:
            f.write(numpy_helper.from_array(value).SerializeToString())


def judge(prefix, case):
    """(difference, "" or what is wrong)"""
    if os.path.exists(prefix + ".error"):
        with open(prefix + ".error") as f:
            return float("inf"), f.read()
    worst, why = 0.0, ""
    for i, want in enumerate(case.outputs):
        tensor = TensorProto()
        try:
            with open("%s_out_%d.pb" % (prefix, i), "rb") as f:
                tensor.ParseFromString(f.read())
        except OSError as e:
            return float("inf"), "no output: " + str(e)
        got = numpy_helper.to_array(tensor)
        d = difference(want, got)
        worst = max(worst, d)
        if d > case.tolerance_factor * TOLERANCE.get(want.dtype, 0.0):
            why = "output %d: %s%s, want %s%s, off by %g\n    %s\n    %s" % (
                i, got.dtype, list(got.shape), want.dtype, list(want.shape), d,
                np.array2string(got.ravel()[:12]), np.array2string(want.ravel()[:12]))
    return worst, why


def describe(case):
    parts = []
    for x in case.inputs:
        if x is None:
            parts.append("-")
        elif x.size <= 8 and x.ndim <= 1:
            parts.append("%s%s=%s" % (x.dtype, list(x.shape), x.tolist()))
        else:
            parts.append("%s%s" % (x.dtype, list(x.shape)))
    return "%s(%s) %s" % (case.op, ", ".join(parts), case.attrs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run_cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", action="store_true", help="do not remove the files")
    args = parser.parse_args()
    makers = [(op, m) for op, m in numpy_cases.MAKERS if args.only in ("", op)]
    rng = random.Random(args.seed)
    work = tempfile.mkdtemp()
    cases = []
    with np.errstate(all="ignore"):
        for k in range(args.count):
            op, maker = makers[k % len(makers)]
            case = maker(op, numpy_cases.Source(args.seed * 1000003 + k))
            write_case(os.path.join(work, str(len(cases))), case, rng)
            cases.append(case)
    failed = 0
    table = collections.OrderedDict((op, [0, {}]) for op, _ in sorted(makers, key=lambda m: m[0]))
    for backend in ("reference", "cpu"):
        for name in os.listdir(work):
            if name.endswith(".error") or "_out_" in name:
                os.remove(os.path.join(work, name))
        code = subprocess.run([args.run_cases, work, str(len(cases)), backend]).returncode
        if code != 0:
            print("run_cases on %s ended with %d" % (backend, code))
            failed += 1
        for k, case in enumerate(cases):
            worst, why = judge(os.path.join(work, str(k)), case)
            row = table[case.op]
            row[0] += backend == "cpu"
            row[1][backend] = max(row[1].get(backend, 0.0), worst)
            if why:
                failed += 1
                print("FAILED case %d on %s: %s\n  %s" % (k, backend, describe(case), why))
    if args.keep:
        print("kept in " + work)
    else:
        shutil.rmtree(work)
    print("%-20s %6s %12s %12s" % ("operator", "cases", "reference", "cpu"))
    for op, (count, worst) in table.items():
        print("%-20s %6d %12.3g %12.3g" % (op, count, worst["reference"], worst["cpu"]))
    print("%d cases of %d operators on 2 backends, %d failed (seed %d)" %
          (len(cases), len(table), failed, args.seed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
