#!/usr/bin/python3
"""Where the time of a build and of its tests went, and which tests were skipped.

usage: times.py [BUILD_FOLDER...] [--steps FILE] [--json FILE] [--top N]
       times.py --processor [BUILD_FOLDER] [--tests CTEST_OPTIONS] [--beside FILE] [--json FILE] [--top N]

Reads what a run leaves behind: BUILD_FOLDER/.ninja_log (default: build/release and build/fuzz, where they are),
its Testing/Temporary/CTestCostData.txt and times/*.xml (GoogleTest's reports; its JSON lacks the reasons of skips), and FILE, in which .ci/run writes a line
"seconds name" for each of its steps (default: build/ci_steps.txt). Compile and link times are seconds of a job,
added up; two jobs run at once on two cores, so the wall time is about half of it.

--processor runs the tests that `ctest CTEST_OPTIONS` names (default: "-LE nightly"), one after the other, and prints
what each took of the processor, with all processes that it started: user and system time, on which other load has little
effect. --beside FILE has what an earlier --json FILE holds in a further column.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree


def ninja_times(folder):
    """{target: [compile s, link s, files]} of the newest build of each output."""
    last = {}
    for line in (folder / ".ninja_log").read_text().splitlines()[1:]:
        begin, end, _, output, _ = line.split("\t")
        last[output] = (int(end) - int(begin)) / 1000
    targets = collections.defaultdict(lambda: [0.0, 0.0, 0])
    for output, seconds in last.items():
        if m := re.search(r"CMakeFiles/([^/]+)\.dir/", output):
            targets[m[1]][0] += seconds
            targets[m[1]][2] += 1
        elif re.search(r"(^|/)(lib\w+\.a|bin/[^/]+)$", output):
            name = pathlib.PurePath(output).name
            targets[re.sub(r"^lib(.*)\.a$", r"\1", name)][1] += seconds
    return targets


def ctest_times(folder):
    """{test: s} of the newest run of each; CTest keeps a mean over runs of one build folder."""
    costs = folder / "Testing/Temporary/CTestCostData.txt"
    times = {}
    if costs.exists():
        for line in costs.read_text().splitlines():
            if line.startswith("---"):
                break
            name, _, seconds = line.rsplit(" ", 2)
            times[name] = float(seconds)
    return times


def gtests(folder):
    """(program, suite.test, s, reason or None) of every GoogleTest report."""
    for path in sorted((folder / "times").glob("*.xml")):
        for suite in xml.etree.ElementTree.parse(path).getroot():
            for test in suite:
                reasons = [s.get("message", "").strip().split("\n")[-1] for s in test.findall("skipped")]
                skipped = (" ".join(reasons) or "no reason") if test.get("result") == "skipped" else None
                yield path.stem, f"{suite.get('name')}.{test.get('name')}", float(test.get("time")), skipped


def table(head, rows):
    rows = [head] + [[f"{c:.1f}" if isinstance(c, float) else str(c) for c in r] for r in rows]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    for r in rows:
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip())
    print()


def listed_tests(folder, options):
    """The entries that `ctest OPTIONS` would run, as its JSON has them, properties by name."""
    listing = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1", *options], stdout=subprocess.PIPE, check=True)
    for test in json.loads(listing.stdout)["tests"]:
        test["properties"] = {p["name"]: p["value"] for p in test.get("properties", [])}
        yield test


def run_alone(test):
    """(processor s, passed, skipped or failed, output) of one entry with every process that it started and waited for."""
    properties = test["properties"]
    environment = {**os.environ, **dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(test["command"], env=environment, cwd=properties.get("WORKING_DIRECTORY"), stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        timer = threading.Timer(properties.get("TIMEOUT", 1500), os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    verdicts = {properties.get("SKIP_RETURN_CODE"): "skipped", 0: "passed"}
    return usage.ru_utime + usage.ru_stime, verdicts.get(process.returncode, "failed"), text


def processor_times(folder, options, top, beside):
    """Measures and prints; {test: [s, verdict]}."""
    times = {}
    for test in listed_tests(folder, options):
        seconds, verdict, text = run_alone(test)
        times[test["name"]] = [round(seconds, 2), verdict]
        print(f"{seconds:8.1f} s  {verdict}  {test['name']}", flush=True)
        if verdict == "failed":
            print("\n".join(text.splitlines()[-40:]))
    print()
    before = json.loads(beside.read_text())["processor"] if beside else {}
    ranked = sorted({**before, **times}, key=lambda n: -max(r[n][0] for r in (before, times) if n in r))
    columns = [before, times] if beside else [times]
    row = lambda names: [sum(c[n][0] for n in names if n in c) for c in columns]
    rows = [[n, *(c[n][0] if n in c else "" for c in columns)] for n in ranked[:top]]
    rows += [[f"{max(0, len(ranked) - top)} others", *row(ranked[top:])], ["sum", *row(ranked)]]
    table([f"{folder}: test", *(["before"] if beside else []), "processor s"], rows)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--steps", type=pathlib.Path, default=pathlib.Path("build/ci_steps.txt"))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--top", type=int, default=15)
    parser.add_argument("--skipped", action="store_true", help="only the tests that were skipped, with their reasons")
    parser.add_argument("--processor", action="store_true", help="runs tests one by one and prints their processor time")
    parser.add_argument("--tests", default="-LE nightly", metavar="CTEST_OPTIONS")
    parser.add_argument("--beside", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    folders = args.folders or [f for f in map(pathlib.Path, ("build/release", "build/fuzz")) if (f / ".ninja_log").exists()]
    if args.skipped:
        found = [(p, t, s) for f in folders for p, t, _, s in gtests(f) if s]
        for program, test, reason in found:
            print(f"skipped: {program} {test}: {reason}")
        print(f"skipped: {len(found)} GoogleTest tests")
        return 0

    if args.processor:
        times = processor_times(folders[0].resolve(), shlex.split(args.tests), args.top, args.beside)
        if args.json:
            args.json.write_text(json.dumps({"processor": times}, indent=1) + "\n")
        return 1 if any(v == "failed" for _, v in times.values()) else 0

    report = {}
    if args.steps.exists():
        steps = [line.split(" ", 1) for line in args.steps.read_text().splitlines()]
        report["steps"] = {name: float(s) for s, name in steps}
        table(["step", "s"], [[n, s] for n, s in report["steps"].items()] + [["sum", sum(report["steps"].values())]])
    for folder in folders:
        targets = ninja_times(folder)
        part = report[str(folder)] = {"targets": targets}
        ranked = sorted(targets.items(), key=lambda i: -i[1][0] - i[1][1])
        rest = ranked[args.top:]
        sums = lambda rows: [sum(t[i] for _, t in rows) for i in range(3)]
        table([f"{folder}: target", "compile s", "link s", "files"],
              [[n, *t] for n, t in ranked[:args.top]] + [[f"{len(rest)} others", *sums(rest)], ["sum", *sums(ranked)]])
        tests = part["tests"] = ctest_times(folder)
        if tests:
            slow = sorted(tests.items(), key=lambda i: -i[1])
            table([f"{folder}: test", "s"], [[n, s] for n, s in slow[:args.top]] +
                  [[f"{max(0, len(slow) - args.top)} others", sum(s for _, s in slow[args.top:])], ["sum", sum(tests.values())]])
        single = sorted(gtests(folder), key=lambda t: -t[2])
        part["gtests"] = [[p, t, s] for p, t, s, _ in single]
        if single:
            table([f"{folder}: slowest single tests", "s"], [[f"{p} {t}", s] for p, t, s, _ in single[:args.top]])
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
