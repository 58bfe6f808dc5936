"""ONNX Runtime on our exports of ONNX's backend test cases, optimizations off.

usage: conformance_exports.py CONFORMANCE [--filter GLOB] [--opset N] [--all OP,...] [--keep DIR]
                              [--json FILE] [--every N] [FOLDER...]

CONFORMANCE is the program of tests/conformance. It exports every case of the folders (by default
libonnx-testdata and $INFER_TEST_DATA/conformance) twice: as imported, and after all rewrites of
`infer-opt fuse`. Where ONNX Runtime computes the stored outputs from the original file (rtol 1e-3,
atol 1e-7, as ONNX's own runner), it must do so from both exports; where it cannot run the original,
but an export at a later opset, it must not compute other values from that; and what onnx.checker
accepts before it must accept after. --opset N: the exports are at this opset, where it can express
them. --all: of every case with one of these operators, both exports must be there and ONNX Runtime
compute the stored outputs from them, whatever it makes of the original. --every N: only each N-th
case of a folder. Exit 1 when one of these does not hold; 77 (a skip) without
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
    code, error = judging.run_quietly([args.conformance, folder, "--filter", args.filter, "--every", str(args.every),
                                       "--rewrites", rewrites, "--opset", args.opset, "--write",
                                       into, "--json", report, "--allow-missing", "--export-only"])
    if code == 77:
        return None
    if code not in (0, 1):  # 1: some cases fail, which is for CONFORMANCE to say
        sys.exit("%s ends with %d: %s" % (args.conformance, code, error))
    with open(report) as f:
        return {case["name"]: case for case in json.load(f)["cases"]}


def judge_case(runtime, original, exported, must_pass):
    """(the answer on the original, the verdicts on our exports, what is worse about them)"""
    case = os.path.dirname(next(iter(exported.values())))
    before = runtime.ask(original, case)
    verdicts, worse, answers = {}, [], {}
    for how, model in exported.items():
        with open(model, "rb") as f:
            bytes_of = f.read()
        after = answers.get(bytes_of) or runtime.ask(model, case)  # most graphs of one node have nothing to rewrite
        answers[bytes_of] = after
        verdicts[how] = after["verdict"]
        if after["checker"] and not before["checker"]:
            worse.append("%s: onnx.checker: %s" % (how, after["checker"]))
        if before["verdict"] == "ok" and after["verdict"] != "ok":
            worse.append("%s: %s" % (how, after["reason"]))
        if before["verdict"] == "cannot" and after["verdict"] in ("differs", "crash"):
            worse.append("%s (the original cannot run): %s" % (how, after["reason"]))
        elif must_pass and before["verdict"] != "ok" and after["verdict"] != "ok":
            worse.append("%s: %s" % (how, after["reason"]))
    return before, verdicts, worse


def has_operator(model, operators):
    """Whether the main graph of a file has a node of one of the operators (of ai.onnx)."""
    if not operators:
        return False
    graph = judging.onnx.load(model, load_external_data=False).graph
    return any(n.op_type in operators and n.domain in ("", "ai.onnx") for n in graph.node)


class Tally:
    """What became of the cases."""

    def __init__(self):
        self.cases, self.not_exported, self.skipped = [], [], 0
        self.lacking, self.must_pass = [], 0  # what --all asks for: not exported, and exported

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
            must_pass = has_operator(case["model"], args.all)
            missing = [how for how, model in exported.items() if not os.path.exists(model)]
            if missing:
                report = reports[missing[0]][name]
                reason = report.get("refused") or report["reason"]
                self.not_exported.append([name, reason])
                if must_pass:
                    self.lacking.append([name, reason])
                continue
            before, verdicts, worse = judge_case(runtime, case["model"], exported, must_pass)
            self.cases.append({"name": name, "folder": folder, **before, "exports": verdicts,
                               "worse": worse})
            self.must_pass += must_pass

    def print(self):
        """Whether all is well."""
        for name, reason in self.not_exported:
            print("not exported  %s: %s" % (name, reason[:300]))
        for name, reason in self.lacking:
            print("FAILS         %s is not exported: %s" % (name, reason[:300]))
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
        row("does not pass on the original, but on both of our exports",
            sum(case["verdict"] != "ok" and set(case["exports"].values()) == {"ok"}
                for case in self.cases))
        if self.must_pass or self.lacking:
            row("must be exported and pass (--all)", self.must_pass + len(self.lacking))
        row("FAILS on an export of ours", sum(bool(case["worse"]) for case in self.cases))
        return not self.lacking and not any(case["worse"] for case in self.cases)

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
    parser.add_argument("--all", type=lambda names: set(names.split(",")), default=set())
    parser.add_argument("--keep", help="where exported models go and stay")
    parser.add_argument("--json")
    parser.add_argument("--every", type=int, default=1)
    args = parser.parse_args()
    data = os.environ.get("INFER_TEST_DATA")
    folders = args.folders or ["/usr/share/libonnx-testdata/data"] + (
        [os.path.join(data, "conformance")] if data else [])
    runtime, tally = Runtime(), Tally()
    with tempfile.TemporaryDirectory() as scratch:
        for k, folder in enumerate(folders):
            tally.add_folder(runtime, args, folder, os.path.join(args.keep or scratch, str(k)))
    fine = tally.print()
    if args.json:
        tally.write(args.json)
    if not tally.cases:
        judging.skip("no case was found")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
