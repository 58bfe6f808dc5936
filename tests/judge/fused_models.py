"""ONNX Runtime on a fused model against the stored outputs of the model as it came.

usage: fused_models.py INFER_OPT [MODEL_ID...]

Fuses every model of $INFER_TEST_DATA/models at level 2 and runs the result in ONNX Runtime, as it
is and with its own optimizations on. Exit 77 (a skip) without the data, or without onnx,
onnxruntime and numpy.
"""

import os

import judging
from judging import np, onnx

TOLERANCE = 1e-3  # max|d| / max|ref| per output; other than float: equal


def worst_difference(session, sets):
    worst = 0.0
    for data_set in sets:
        for i, got in enumerate(session.run(None, judging.load_inputs(data_set, session))):
            _, want = judging.read_tensor(os.path.join(data_set, "output_%d.pb" % i))
            worst = max(worst, judging.difference(want, np.asarray(got)))
    return worst


def check(infer_opt, folder, work):
    fused = os.path.join(work, "fused.onnx")
    code, error = judging.run_quietly([infer_opt, "fuse", os.path.join(folder, "model.onnx"), "-o",
                                       fused, "-q", "--no-verify"])
    if code != 0:
        return "bad", "fuse exits with %d: %s" % (code, error)
    onnx.checker.check_model(fused)
    sets = judging.data_sets(folder)
    if not sets:
        return "skipped", "has no data set"
    worst = {how: worst_difference(judging.session_of(fused, how == "default"), sets)
             for how in ("disabled", "default")}
    verdict = "ok" if max(worst.values()) <= TOLERANCE else "bad"
    return verdict, "max|d|/max|ref|: " + ", ".join("%s %.2g" % w for w in worst.items())


judging.judge_models(check)
