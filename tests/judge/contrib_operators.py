"""ONNX Runtime on its own operators (domain com.microsoft) against ours, on small models.

usage: contrib_operators.py INFER_OPT [--every N] [OPERATOR...]

The models of contrib_cases.py, contrib_attention_cases.py, contrib_float_cases.py and
contrib_text_cases.py, with fixed seeds, run in ONNX Runtime without its rewrites and in `infer-opt run` on both devices. One line per
operator: the number of cases, the worst difference, and for integers how many elements (of both
devices) are one quantum away. Integers must be equal, or one quantum away where a case says that roundings differ, and then in few elements.
Floats may differ by TOLERANCE of the largest value. What ONNX Runtime refuses is named and compared
with nothing; what we refuse fails. --every N takes each operator's first case and every N-th after it. Exit 77 (a skip) without onnx, onnxruntime and numpy.
"""

import os
import pickle
import subprocess
import sys
import tempfile

import contrib_attention_cases
import contrib_cases
import contrib_float_cases
import contrib_text_cases
import judging
from judging import np, onnx

TOLERANCE = 1e-4  # of the largest value
HALF_TOLERANCE = 2e-3  # f16 outputs: two units in the last place
MOST_OFF = 0.02  # of the elements may be one quantum away where roundings differ
DEVICES = ("reference", "cpu")


def save_tensor(path, name, value):
    tensor = value if isinstance(value, onnx.TensorProto) else onnx.numpy_helper.from_array(value)
    with open(path, "wb") as f:
        f.write(tensor.SerializeToString())
    return "%s=%s" % (name, path)


def run_ours(infer_opt, device, model, inputs, outputs, work):
    out = os.path.join(work, device)
    os.mkdir(out)
    command = [infer_opt, "run", model, "--device", device, "-o", out, "--format", "pb", "-q",
               "--threads", "1"]
    for argument in inputs:
        command += ["-i", argument]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError("infer-opt run exits with %d: %s" % (done.returncode, done.stderr.strip()))
    return [judging.read_tensor(os.path.join(out, name + ".pb"))[1] for name in outputs]


def run_theirs(model, inputs, work):
    """Outputs of ONNX Runtime, in a process of its own: some of its kernels do not check what they
    read. RuntimeError says what it said."""
    path = os.path.join(work, "theirs")
    child = os.fork()
    if child == 0:
        try:
            result = judging.session_of(model, False).run(None, inputs)
        except Exception as e:
            result = str(e).split("\n")[0]
        with open(path, "wb") as f:
            pickle.dump(result, f)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError("ends with signal %d" % os.WTERMSIG(status))
    with open(path, "rb") as f:
        result = pickle.load(f)
    if isinstance(result, str):
        raise RuntimeError(result)
    return result


class Tally:
    """What one operator's cases gave."""

    def __init__(self):
        self.cases = self.refused = self.elements = self.off_by_one = 0
        self.worst = {}  # per element type
        self.bad = []

    def compare(self, case, where, want, got):
        want, got = np.asarray(want), np.asarray(got)
        if want.shape != got.shape or want.dtype != got.dtype:
            self.bad.append("%s%s: %s %s instead of %s %s" % (case.label, where, got.dtype, got.shape,
                                                              want.dtype, want.shape))
        elif np.issubdtype(want.dtype, np.integer):
            apart = np.abs(want.astype(np.int64) - got.astype(np.int64))
            off = int(np.count_nonzero(apart == 1))
            self.elements += apart.size
            self.off_by_one += off
            allowed = case.one_quantum and off <= max(1, MOST_OFF * apart.size)
            if np.any(apart > 1) or (off and not allowed):
                self.bad.append("%s%s: %d of %d elements differ, by up to %d" % (
                    case.label, where, np.count_nonzero(apart), apart.size, apart.max()))
        else:
            apart = judging.difference(want, got)
            self.worst[want.dtype.name] = max(self.worst.get(want.dtype.name, 0.0), apart)
            if not apart <= (HALF_TOLERANCE if want.dtype == np.float16 else TOLERANCE):
                self.bad.append("%s%s: max|d|/max|ref| is %.2g" % (case.label, where, apart))

    def line(self, op):
        parts = ["%d cases" % self.cases]
        if self.refused:
            parts.append("%d refused by ONNX Runtime" % self.refused)
        if self.elements:
            parts.append("%d of %d integers off by one" % (self.off_by_one, self.elements))
        parts += ["max|d|/max|ref| %.2g in %s" % (d, t) for t, d in sorted(self.worst.items())]
        return "%-4s %-26s %s" % ("bad" if self.bad else "ok", op, ", ".join(parts))


def judge(infer_opt, case, tally):
    with tempfile.TemporaryDirectory() as work:
        model = os.path.join(work, "model.onnx")
        onnx.save(case.model(), model)
        inputs = [save_tensor(os.path.join(work, name + ".in.pb"), name, value)
                  for name, value in case.inputs.items()]
        try:
            want = run_theirs(model, case.inputs, work)
        except RuntimeError as e:
            tally.refused += 1
            print("refused by ONNX Runtime: %s %s: %s" % (case.op, case.label, str(e)[-160:]))
            return
        tally.cases += 1
        for device in DEVICES:
            try:
                got = run_ours(infer_opt, device, model, inputs, case.outputs, work)
            except RuntimeError as e:
                tally.bad.append("%s on %s: %s" % (case.label, device, e))
                continue
            for name, w, g in zip(case.outputs, want, got):
                w = w if case.mask is None else case.mask(name, w)
                g = g if case.mask is None else case.mask(name, g)
                tally.compare(case, " on %s, output %s" % (device, name), w, g)


def main():
    if len(sys.argv) < 2:
        sys.exit("the program under test is missing")
    infer_opt, wanted, every = sys.argv[1], sys.argv[2:], 1
    if wanted[:1] == ["--every"]:
        every, wanted = int(wanted[1]), wanted[2:]
    tallies, seen = {}, {}
    for case in (contrib_cases.cases() + contrib_attention_cases.cases() +
                 contrib_float_cases.cases() + contrib_text_cases.cases()):
        if wanted and case.op not in wanted:
            continue
        seen[case.op] = seen.get(case.op, -1) + 1
        if seen[case.op] % every != 0:
            continue
        judge(infer_opt, case, tallies.setdefault(case.op, Tally()))
    for op, tally in tallies.items():
        print(tally.line(op))
        for bad in tally.bad:
            print("       " + bad)
    if any(t.bad for t in tallies.values()):
        sys.exit(1)
    if not sum(t.cases for t in tallies.values()):
        sys.exit("no model was compared")


main()
