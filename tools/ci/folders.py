#!/usr/bin/env python3
"""Draws libraries, their folders and what they use, from `infer_library(...)` in the CMakeLists.txt files, as Mermaid.

usage: folders.py             # docs/folders.md is what CMake says: exit 1 where it is not
       folders.py --write     # makes it so
       folders.py --at COMMIT # prints the drawing of another commit, and its counts
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/folders.md"
TOP = ("lib", "datasets", "passes", "runtime", "quant", "tools")
BEGIN, END = "<!-- made by tools/ci/folders.py -->", "<!-- end of what is made -->"
KEYS = ("LAYER", "DIRS", "HOST", "DEPS", "PRIVATE_DEPS")


class Library:
    def __init__(self, name, home, words):
        self.name = name.removeprefix("infer_")
        parts = {key: [] for key in KEYS}
        at = None
        for word in words:
            if word in KEYS:
                at = word
            elif at:
                parts[at].append(word)
        self.layer = int(parts["LAYER"][0])
        self.folders = [str(pathlib.PurePosixPath(home) / d) for d in parts["DIRS"] or ["."]]
        self.uses = [d.removeprefix("infer_") for d in parts["DEPS"] + parts["PRIVATE_DEPS"] if d.startswith("infer_")]


def expanded(word, variables):
    """${NAME} as its list where the same file sets it."""
    return variables.get(word[2:-1], [word]) if word.startswith("${") else [word]


def libraries(root):
    found = {}
    for top in TOP:
        for file in sorted((root / top).rglob("CMakeLists.txt")):
            home = file.parent.relative_to(root).as_posix()
            variables = {}
            text = re.sub(r"#.*", "", file.read_text())
            for command, body in re.findall(r"\b(set|list|infer_library)\(([^()]*)\)", text):
                words = [w for word in body.replace('"', " ").split() for w in expanded(word, variables)]
                if not words:
                    continue
                if command == "set":
                    variables[words[0]] = words[1:]
                elif command == "list" and words[0] == "TRANSFORM" and words[2] == "PREPEND":
                    variables[words[1]] = [words[3] + w for w in variables.get(words[1], [])]
                elif command == "infer_library":
                    library = Library(words[0], home, words[1:])
                    if any((root / f).is_dir() for f in library.folders):  # not the stand-in of what is not built
                        found[library.name] = library
    return found


def below(name, all_of):
    seen, todo = set(), list(all_of[name].uses)
    while todo:
        n = todo.pop()
        if n in all_of and n not in seen:
            seen.add(n)
            todo += all_of[n].uses
    return seen


def drawing(all_of):
    lines = ["```mermaid", "flowchart BT"]
    for top in TOP:
        inside = [l for l in all_of.values() if l.folders[0].split("/")[0] == top]
        if not inside:
            continue
        lines.append(f"  subgraph {top}")
        for l in sorted(inside, key=lambda l: (l.layer, l.name)):
            home = top + "/"
            names = [f.removeprefix(home) if f != top else "." for f in l.folders]
            rows = [", ".join(names[i : i + 4]) for i in range(0, len(names), 4)]
            lines.append(f'    {l.name}["<b>{l.name}</b><br/>{"<br/>".join(rows)}"]')
        lines.append("  end")
    for l in sorted(all_of.values(), key=lambda l: (l.layer, l.name)):
        uses = [u for u in l.uses if u in all_of]
        # What another of them uses anyway is not drawn.
        lines += [f"  {l.name} --> {u}" for u in uses if not any(u in below(v, all_of) for v in uses if v != u)]
    return "\n".join(lines + ["```"])


def counts(root, all_of):
    """Folders, lines of C++ and the longest file, includes that cross a folder and those that cross a library."""
    owner = {f: l.name for l in all_of.values() for f in l.folders}
    folders, total, longest, crossing, across = set(), 0, (0, ""), 0, 0
    for top in TOP:
        for file in (root / top).rglob("*"):
            if file.suffix not in (".cc", ".h", ".inc"):
                continue
            home = file.parent.relative_to(root).as_posix()
            folders.add(home)
            text = file.read_text()
            total += text.count("\n")
            longest = max(longest, (text.count("\n"), file.relative_to(root).as_posix()))
            for target in re.findall(r'^#include "(.*)/[^/"]*"', text, re.M):
                crossing += target != home
                across += owner.get(target) != owner.get(home)
    return (f"{len(all_of)} libraries, {len(folders)} folders with code, {total:,} lines, longest file {longest[0]} ({longest[1]}); "
            f"{crossing:,} includes of another folder, {across:,} of them of another library")


def main():
    if "--at" in sys.argv:
        commit = sys.argv[sys.argv.index("--at") + 1]
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            packed = subprocess.run(["git", "archive", commit, *TOP], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
            all_of = libraries(root)
            print(drawing(all_of), counts(root, all_of), sep="\n\n")
        return
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    made = f"{head}{BEGIN}\n\n{drawing(libraries(ROOT))}\n\n{END}{tail}"
    if "--write" in sys.argv:
        PAGE.write_text(made)
    elif made != text:
        sys.exit("docs/folders.md is not what CMake says: tools/ci/folders.py --write")


if __name__ == "__main__":
    main()
