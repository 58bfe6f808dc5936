"""ONNX Runtime on our exports of ONNX's backend test cases, optimizations off.

usage: conformance_exports.py CONFORMANCE [--filter GLOB] [--opset N] [--keep DIR] [--json FILE]
                              [FOLDER...]

CONFORMANCE is the program of tests/conformance. It exports every case of the folders (by default
libonnx-testdata and $INFER_TEST_DATA/conformance) twice: as imported, and after all rewrites of
`infer-opt fuse`. Where ONNX Runtime computes the stored outputs from the original file (rtol 1e-3,
atol 1e-7, as ONNX's own runner), it must do so from both exports; where it cannot run the original,
but an export at a later opset, it must not compute other values from that; and what onnx.checker
accepts before it must accept after. --opset N: the exports are at this opset, where it can express
them. Exit 1 when one of these does not hold; 77 (a skip) without
cases, onnx, onnxruntime or numpy.

ONNX Runtime runs in a process of its own, which is started again after a crash or a hang: that is
one failed run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile

import judging

RUN_LIMIT_S = 60
EXPORTS = {"as imported": "none", "rewritten": "fuse"}  # and --rewrites of CONFORMANCE


class Runtime:
    """case_worker.py in a child process; a question is a line of JSON, and so is the answer."""

    def __init__(self):
        self.child = None

    def ask(self, model, case):
        """The worker's answer, or one in its place when it crashed or hung."""
        if self.child is None:
            worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "case_worker.py")
            self.child = subprocess.Popen([sys.executable, worker, str(RUN_LIMIT_S)],
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True)
        try:
            self.child.stdin.write(json.dumps([model, case]) + "\n")
            self.child.stdin.flush()
            answer = self.child.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer:
            return json.loads(answer)
        code = self.child.wait()
        self.child = None
        reason = ("hangs: more than %d s" % RUN_LIMIT_S if code == -signal.SIGALRM else
                  "CRASH: the process ends with %d" % code)
        return {"checker": "", "verdict": "crash", "reason": reason}


def export(args, folder, rewrites, into):
    """The cases of CONFORMANCE's report by name; None where the folder has none."""
    os.makedirs(into, exist_ok=True)
    report = into + ".json"
    code, error = judging.run_quietly([args.conformance, folder, "--filter", args.filter,
                                       "--rewrites", rewrites, "--opset", args.opset, "--write",
                                       into, "--json", report, "--allow-missing"])
    if code == 77:
        return None
    if code not in (0, 1):  # 1: some cases fail, which is for CONFORMANCE to say
        sys.exit("%s ends with %d: %s" % (args.conformance, code, error))
    with open(report) as f:
        return {case["name"]: case for case in json.load(f)["cases"]}


def judge_case(runtime, original, exported):
    """(the answer on the original, what is worse about our exports)"""
    case = os.path.dirname(next(iter(exported.values())))
    before = runtime.ask(original, case)
    worse = []
    for how, model in exported.items():
        after = runtime.ask(model, case)
        if after["checker"] and not before["checker"]:
            worse.append("%s: onnx.checker: %s" % (how, after["checker"]))
        if before["verdict"] == "ok" and after["verdict"] != "ok":
            worse.append("%s: %s" % (how, after["reason"]))
        if before["verdict"] == "cannot" and after["verdict"] in ("differs", "crash"):
            worse.append("%s (the original cannot run): %s" % (how, after["reason"]))
    return before, worse


class Tally:
    """What became of the cases."""

    def __init__(self):
        self.cases, self.not_exported, self.skipped = [], [], 0

    def add_folder(self, runtime, args, folder, root):
        reports, roots = {}, {}
        for how, rewrites in EXPORTS.items():
            roots[how] = os.path.join(root, rewrites)
            reports[how] = export(args, folder, rewrites, roots[how])
        if None in reports.values():
            print("no case in " + folder)
            return
        for name, case in next(iter(reports.values())).items():
            if case["verdict"] == "skipped":
                self.skipped += 1
                continue
            exported = {how: os.path.join(roots[how], name, "model.onnx") for how in EXPORTS}
            missing = [how for how, model in exported.items() if not os.path.exists(model)]
            if missing:
                report = reports[missing[0]][name]
                self.not_exported.append([name, report.get("refused") or report["reason"]])
                continue
            before, worse = judge_case(runtime, case["model"], exported)
            self.cases.append({"name": name, "folder": folder, **before, "worse": worse})

    def print(self):
        for name, reason in self.not_exported:
            print("not exported  %s: %s" % (name, reason[:300]))
        for case in self.cases:
            for what in case["worse"]:
                print("FAILS         %s, %s" % (case["name"], what[:600]))
        passes = [case for case in self.cases if case["verdict"] == "ok"]

        def row(what, n):
            print("%-58s %5d" % (what, n))

        row("cases in the skip list of conformance", self.skipped)
        row("cases that we do not export", len(self.not_exported))
        for verdict, what in (("cannot", "ONNX Runtime cannot run the original"),
                              ("crash", "ONNX Runtime crashes on the original"),
                              ("differs", "ONNX Runtime differs from what is stored on the original"),
                              ("ok", "ONNX Runtime passes on the original")):
            row(what, sum(case["verdict"] == verdict for case in self.cases))
        row("  and on both of our exports", sum(not case["worse"] for case in passes))
        row("FAILS on an export of ours", sum(bool(case["worse"]) for case in self.cases))

    def write(self, path):
        with open(path, "w") as f:
            json.dump({"schema": "conformance_exports@1", "skipped": self.skipped,
                       "not_exported": self.not_exported, "cases": self.cases}, f, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("conformance")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--opset", default="0")
    parser.add_argument("--keep", help="where exported models go and stay")
    parser.add_argument("--json")
    args = parser.parse_args()
    data = os.environ.get("INFER_TEST_DATA")
    folders = args.folders or ["/usr/share/libonnx-testdata/data"] + (
        [os.path.join(data, "conformance")] if data else [])
    runtime, tally = Runtime(), Tally()
    with tempfile.TemporaryDirectory() as scratch:
        for k, folder in enumerate(folders):
            tally.add_folder(runtime, args, folder, os.path.join(args.keep or scratch, str(k)))
    tally.print()
    if args.json:
        tally.write(args.json)
    if not tally.cases:
        judging.skip("no case was found")
    return 1 if any(case["worse"] for case in tally.cases) else 0


if __name__ == "__main__":
    sys.exit(main())
