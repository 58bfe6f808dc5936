#!/usr/bin/python3
"""Where the time of a build and of its tests went, and which tests were skipped.

usage: times.py [BUILD_FOLDER...] [--steps FILE] [--json FILE] [--top N]

Reads what a run leaves behind: BUILD_FOLDER/.ninja_log (default: build/release and build/fuzz, where they are),
its Testing/Temporary/CTestCostData.txt and times/*.xml (GoogleTest's reports; its JSON lacks the reasons of skips), and FILE, in which .ci/run writes a line
"seconds name" for each of its steps (default: build/ci_steps.txt). Compile and link times are seconds of a job,
added up; two jobs run at once on two cores, so the wall time is about half of it.
"""
import argparse
import collections
import json
import pathlib
import re
import sys
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--steps", type=pathlib.Path, default=pathlib.Path("build/ci_steps.txt"))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--top", type=int, default=15)
    parser.add_argument("--skipped", action="store_true", help="only the tests that were skipped, with their reasons")
    args = parser.parse_args()
    folders = args.folders or [f for f in map(pathlib.Path, ("build/release", "build/fuzz")) if (f / ".ninja_log").exists()]
    if args.skipped:
        found = [(p, t, s) for f in folders for p, t, _, s in gtests(f) if s]
        for program, test, reason in found:
            print(f"skipped: {program} {test}: {reason}")
        print(f"skipped: {len(found)} GoogleTest tests")
        return 0

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
