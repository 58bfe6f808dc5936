#!/usr/bin/python3
"""Runs tests of ctest and keeps what passed, so that a run which was cut off goes on where it was.

usage: in_parts.py BUILD_FOLDER LEDGER [--seconds N] [--jobs N] [CTEST_OPTION...]

CTEST_OPTIONs choose the tests (-L nightly -LE clock). A line of LEDGER says how one of them ended, at which commit. Started
again, a test that passed is not run again, unless a file has changed since its commit that can affect it: one that a program
of its command was compiled from, or one that lies beside a script of its command. Tests that failed run again, first. No
test is started after --seconds. Exit code 1: a test failed, or the time was too short for all.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from affected import affected_tests, all_tests, changed_files, lines_of


def entries_of(ledger):
    """The last entry for each test."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return {e["test"]: e for e in map(json.loads, lines)}


def folders_of_scripts(test, root):
    """Folders of the scripts in a test's command that belong to the repository."""
    paths = [pathlib.Path(word) for word in test.get("command", []) if word.endswith((".py", ".sh", ".cmake"))]
    return {p.parent for p in paths if p.is_absolute() and p.is_relative_to(root)}


def still_passed(build, tests, entries):
    """Names of tests that passed, and that no change since then can affect."""
    root = pathlib.Path(lines_of("git", "rev-parse", "--show-toplevel")[0])
    kept = set()
    for commit in {e["commit"] for e in entries.values() if e["passed"]}:
        there = [t for t in tests if entries.get(t["name"], {}).get("commit") == commit and entries[t["name"]]["passed"]]
        try:
            changed = changed_files(commit)
        except subprocess.CalledProcessError:
            continue  # a commit that this clone does not have
        affected = set(affected_tests(build, changed, there))
        folders = {f.parent for f in changed}
        kept |= {t["name"] for t in there
                 if t["name"] not in affected and folders.isdisjoint(folders_of_scripts(t, root))}
    return kept


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("ledger", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args, options = parser.parse_known_args()
    build = args.build.resolve()
    tests = all_tests(build, *options)
    entries = entries_of(args.ledger)
    kept = still_passed(build, tests, entries)
    todo = sorted((t["name"] for t in tests if t["name"] not in kept),
                  key=lambda name: entries.get(name, {"passed": True})["passed"])  # those that failed come first
    commit = lines_of("git", "rev-parse", "HEAD")[0]
    clean = not lines_of("git", "status", "--porcelain", "--untracked-files=no")
    print(f"in parts: {len(tests)} tests, {len(kept)} passed before, {len(todo)} to run", flush=True)
    args.ledger.parent.mkdir(parents=True, exist_ok=True)
    alone = {t["name"] for t in tests if {"name": "RUN_SERIAL", "value": True} in t["properties"]}
    begin, lock, failed, skipped, left = time.monotonic(), threading.Lock(), [], [], []

    def run(name):
        if time.monotonic() - begin > args.seconds:
            left.append(name)
            return
        start = time.monotonic()
        done = subprocess.run(["ctest", "--test-dir", build, "-R", "^" + name.replace(".", "[.]") + "$",
                               "--output-on-failure", "--no-tests=error"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        seconds = time.monotonic() - start
        verdict = "FAILED" if done.returncode else "skipped" if "***Skipped" in done.stdout else "passed"
        with lock:
            print(f"{verdict:7} {seconds:7.1f} s  {name}", flush=True)
            if verdict == "FAILED":
                print(done.stdout, flush=True)
                failed.append(name)
            elif verdict == "skipped":
                skipped.append(name)
            if clean or verdict == "FAILED":  # what passed with changes that no commit has is run again
                with args.ledger.open("a") as f:
                    f.write(json.dumps({"test": name, "passed": verdict == "passed", "commit": commit,
                                        "seconds": round(seconds, 1)}) + "\n")

    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        list(pool.map(run, (name for name in todo if name not in alone)))
    for name in todo:
        if name in alone:
            run(name)
    ended = len(failed) + len(skipped) + len(left)
    print(f"in parts: {len(tests)} tests, {len(kept)} passed before, {len(todo) - ended} passed now, "
          f"{len(skipped)} skipped, {len(failed)} failed, {len(left)} left"
          + "".join(f"\n  failed: {n}" for n in failed))
    sys.exit(1 if failed or left else 0)


if __name__ == "__main__":
    main()
