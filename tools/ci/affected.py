#!/usr/bin/python3
"""Lets ctest begin with the tests that a change can affect.

usage: affected.py BUILD_FOLDER [BASE]

A test is affected where its command names a file that differs from BASE (default: the commit before), or a program one
of whose objects was compiled from one (ninja's log of dependencies). CTest runs what failed in the last run
first; the affected tests are added to that list, behind those that did fail. All tests run in any case.
"""
import json
import pathlib
import subprocess
import sys


def lines_of(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **options).stdout.splitlines()


def changed_files(base):
    root = pathlib.Path(lines_of("git", "rev-parse", "--show-toplevel")[0])
    names = lines_of("git", "diff", "--name-only", base) + lines_of("git", "ls-files", "--others", "--exclude-standard")
    return {(root / n).resolve() for n in names}


def changed_objects(build, changed):
    """Objects of `build` that were compiled from a changed file."""
    objects, current = set(), None
    for line in lines_of("ninja", "-C", str(build), "-t", "deps"):
        if line.startswith("    "):
            if current and (build / line.strip()).resolve() in changed:
                objects.add(current)
        elif line:
            current = line.split(":")[0]
    return objects


def all_tests(build, *options):
    """Tests of `build` as ctest lists them, with `options` (-L quick) some of them."""
    return json.loads("\n".join(lines_of("ctest", "--test-dir", str(build), "--show-only=json-v1", *options)))["tests"]


def affected_tests(build, changed, tests):
    """Names of those of `tests` that files of `changed` can affect."""
    objects = changed_objects(build, changed)
    is_affected = {}  # by program or script
    affected = []
    for test in tests:
        for word in test.get("command", []):
            path = pathlib.Path(word)
            if not path.is_absolute() or not path.is_file():
                continue
            if word not in is_affected:
                inside = path.is_relative_to(build)
                inputs = lines_of("ninja", "-C", str(build), "-t", "inputs", str(path.relative_to(build))) if inside else []
                is_affected[word] = path.resolve() in changed or not objects.isdisjoint(inputs)
            if is_affected[word]:
                affected.append(test["name"])
                break
    return affected


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    try:
        changed = changed_files(sys.argv[2] if len(sys.argv) == 3 else "HEAD~1")
    except subprocess.CalledProcessError:
        print("affected: no commit to compare with; tests run in their usual order")
        return
    tests = all_tests(build)
    affected = affected_tests(build, changed, tests)
    log = build / "Testing/Temporary/CTestCostData.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    costs, _, failed = (log.read_text() if log.exists() else "").partition("---\n")
    failed = failed.split()
    log.write_text(costs + "---\n" + "".join(n + "\n" for n in dict.fromkeys(failed + affected)))
    print(f"affected: {len(affected)} of {len(tests)} tests depend on {len(changed)} changed files, and run first")


if __name__ == "__main__":
    main()
