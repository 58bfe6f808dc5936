"""ONNX Runtime on our export equals ONNX Runtime on the original, optimizations off.

usage: export_equals_original.py REEXPORT [MODEL_ID...]

REEXPORT is the program of tests/judge/reexport.cc. Models and their inputs are those of
$INFER_TEST_DATA/models. Exit 77 (a skip) without that, or without onnx, onnxruntime and numpy.
"""

import os

import judging
from judging import np, onnx

TOLERANCE = 1e-6  # max|d| / max|ref| per output; other than float: equal


def check(reexport, folder, work):
    original = os.path.join(folder, "model.onnx")
    exported = os.path.join(work, "m.onnx")
    code, error = judging.run_quietly([reexport, original, exported])
    if code == 4:
        return "unsupported", error.split("\n", 2)[1:2]
    if code != 0:
        return "bad", error
    onnx.checker.check_model(exported)
    a = judging.session_of(original, optimize=False)
    b = judging.session_of(exported, optimize=False)
    if [x.name for x in a.get_outputs()] != [x.name for x in b.get_outputs()]:
        return "bad", "other outputs"
    sets = judging.data_sets(folder)
    if not sets:
        return "skipped", "loads, but has no data set"
    worst = 0.0
    for data_set in sets:
        feeds = judging.load_inputs(data_set, a)
        for want, got in zip(a.run(None, feeds), b.run(None, feeds)):
            worst = max(worst, judging.difference(np.asarray(want), np.asarray(got)))
    verdict = "ok" if worst <= TOLERANCE else "bad"
    return verdict, "max|d|/max|ref| %.2g over %d sets" % (worst, len(sets))


judging.judge_models(check)
