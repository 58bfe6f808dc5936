#!/usr/bin/python3
"""Knowledge about operators stands in lib/ops, once: elsewhere no list of three or more of their names. What is asked for
are traits, axes and weight layouts (lib/ops/traits.h, axes.h, weight_layout.h).

A list is names between commas, or a chain of Is("A") || Is("B") || Is("C"). A table that binds a function or number of its own to each
name (the kernels of a backend, the roles of quantization) is none: each row stands for itself. Exit 1 and name each breach."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("lib", "passes", "quant", "runtime", "tools")
NAMES_BY_RIGHT = {  # file or folder -> why
    "lib/ops/": "where the knowledge belongs",
    "quant/target/": "what other programs do with operators, which no operator knows of itself",
    "tools/infer_bench/predict/": "columns and training networks of a learned model, fixed with its numbers",
}
NAME = r'"(\w+)"'
LIST = re.compile(rf"{NAME}(?:\s*,\s*{NAME}){{2,}}")
CHAIN = re.compile(r'(?:\w+(?:\.|->)Is\("\w+"\)[^;{}"]*?(?:\|\||&&)\s*!?){2,}[^;{}"]*?\w+(?:\.|->)Is\("\w+"\)')
TEXT = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)  # graphs in text form


def operators():
    table = (ROOT / "docs/operators.md").read_text()
    return set(re.findall(r"^\| (\w+)", table, re.M)) - {"operator"}


def breaches(text, names):
    text = TEXT.sub(lambda m: "\n" * m.group(0).count("\n"), text)
    for pattern in (LIST, CHAIN):
        for match in pattern.finditer(text):
            found = [name for name in re.findall(NAME, match.group(0)) if name in names]
            if len(found) >= 3:
                yield text.count("\n", 0, match.start()) + 1, found


def main():
    names = operators()
    files = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    bad = 0
    for name in files:
        if not name.endswith((".cc", ".h", ".inc")) or name.startswith(tuple(NAMES_BY_RIGHT)):
            continue
        for line, found in breaches((ROOT / name).read_text(), names):
            print(f"{name}:{line}: a list of operators: {', '.join(found[:6])}{', ...' if len(found) > 6 else ''}")
            bad += 1
    # The script finds what it looks for.
    for text in ('f({"Relu", "Abs", "Neg"})', 'n.Is("Relu") || n->Is("Abs") ||\n n.Is("Neg")'):
        assert list(breaches(text, names)), text
    for text in ('{"Relu", "", f}, {"Abs", "", g}, {"Neg", "", h}', 'R"(graph g(x) -> (y) { "Relu", "Abs", "Neg" })"'):
        assert not list(breaches(text, names)), text
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
