#!/usr/bin/python3
"""Every #include "x/y/..." must go to a folder that the includer's folder may use, and heavy or
backend headers only where they belong (docs/architecture.md); calls that throw, or fail where a signal
comes, have a form that does not. Exit 1 and name each breach."""
import pathlib
import re
import sys

LIB = ["lib/support", "lib/tensor", "lib/ops", "lib/ir"]
PIXELS = LIB[:2] + ["lib/image"]
MATCHED = LIB + ["lib/pattern"]
BELOW_BACKENDS = MATCHED + ["runtime/api", "runtime/plan_ir"]
CPU = ["runtime/cpu/simd", "runtime/cpu/launch", "runtime/cpu/onednn", "runtime/cpu/kernels/common"]
ALLOWED = {  # folder -> folders that it may include (itself is implied)
    "lib/support": [],
    "lib/tensor": LIB[:1],
    "lib/image": LIB[:2],
    "lib/ops": PIXELS,
    "lib/ir": LIB[:3],
    "lib/pattern": LIB,
    "lib/onnx": LIB,
    "datasets": PIXELS,
    "passes": MATCHED,
    "runtime/api": LIB,
    "runtime/plan_ir": MATCHED + ["runtime/api"],
    "runtime/engine": LIB + ["runtime/api"],
    "runtime/reference": BELOW_BACKENDS,
    "runtime/cpu": BELOW_BACKENDS,
    "runtime/cpu/simd": LIB,
    "runtime/cpu/launch": BELOW_BACKENDS,
    "runtime/cpu/onednn": BELOW_BACKENDS + ["runtime/cpu/launch"],
    "runtime/cpu/kernels/common": BELOW_BACKENDS + CPU[:3],
    "runtime/cpu/kernels/conv": BELOW_BACKENDS + CPU[:4] + ["runtime/cpu/kernels/matmul"],
    "runtime/cpu/kernels/recurrent": BELOW_BACKENDS + CPU[:4] + ["runtime/cpu/kernels/int8"],
    **{f"runtime/cpu/kernels/{kind}": BELOW_BACKENDS + CPU[:4]
       for kind in ("attention", "elementwise", "int8", "matmul", "move", "norm", "pool", "signal")},
    "runtime/cpu/compile": BELOW_BACKENDS + CPU[:3] + ["runtime/cpu/kernels"],
    "runtime/cpu/tune": BELOW_BACKENDS + CPU[:3],
    "runtime/cpu/exec": BELOW_BACKENDS + ["runtime/cpu"],
    "runtime/mock": BELOW_BACKENDS,
    "runtime/vulkan": BELOW_BACKENDS,
    "runtime/devices": LIB + ["runtime/api", "runtime/cpu", "runtime/reference", "runtime/vulkan"],
    "runtime/c_api": LIB + ["lib/onnx", "passes", "quant", "runtime/api", "runtime/devices", "runtime/engine"],
    "quant": MATCHED + ["passes", "runtime/api"],
    "tools/bench": ["lib", "datasets", "passes", "quant", "runtime", "tools/common"],
    "tools": ["lib", "datasets", "passes", "quant", "runtime"],
    "tests": ["lib", "datasets", "passes", "quant", "runtime", "tools"],
}
ONLY_IN = {  # system header -> the folders that may see it
    r"<(onnx|google/protobuf)/": ["lib/onnx", "tests"],
    r"<CLI/": ["tools/common"],
    r"<(vulkan/|volk)": ["runtime/vulkan"],
    r"<Eigen/": ["lib/ops", "quant", "runtime", "tools/infer_bench/predict"],
    r"<(png|jpeglib|jerror)\.h": ["lib/image"],
    r"<re2/": ["lib/ops", "quant"],
    r"<nlohmann/": ["tools", "tests"],
    r"<benchmark/": ["tools/infer_bench/kernels"],
}
BEHIND = {  # a header that one door hides -> how the files that may include it begin
    r"<(oneapi/)?dnnl": "runtime/cpu/onednn",
    r'"runtime/cpu/onednn/onednn_': "runtime/cpu/onednn",
}
NO_THROW = "its form with a std::error_code does not throw"
NARROWED = {  # a file -> how many casts of it are known to be bounded, and by what
    "lib/ops/declared_rank.h": (1, "compared with kRankLimit"),
    "lib/ops/move/reshape.cc": (1, "compared with the rank"),
    "lib/ops/move/scatter.cc": (1, "compared with the rank"),
    "lib/ops/other/contrib_other.cc": (1, "a seed is of 32 bits"),
    "passes/rewrite/rule_bends.cc": (1, "constants of a rule's example"),
}
NEVER_THROW = ("path", "u8path", "file_type", "perms", "file_status", "copy_options", "file_time_type", "filesystem_error")
INSTEAD = {  # what nothing but tests may write -> what does it
    r"\bdirectory_(iterator|entry)\b|\brecursive_directory_iterator\b": "EntriesOf (lib/support/folder.h) does not throw",
    r"\.dump\((?!.*error_handler_t)": "CompactJson or JsonText: dump() throws for a name that is no UTF-8",
    r"\bumask\(": "the umask is the process's, not a thread's",
    r"(?<!return )::(open|openat|fsync|fdatasync|rename|renameat|flock|ftruncate)\(": "Retry (lib/support/retry.h): "
    "a signal may interrupt it",
    r"using (namespace )?std::filesystem\b": "a call of it must be told from our own functions: write std::filesystem:: or fs::",
}


def folder_of(path, table):
    """The longest entry of `table` that is a folder of `path`."""
    found = [d for d in table if path == d or path.startswith(d + "/")]
    return max(found, key=len) if found else None


def arguments(text, begin):
    """Those of the call whose parenthesis stands before `begin`."""
    depth, start, found = 1, begin, []
    for at in range(begin, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 or (depth == 1 and text[at] == ","):
            found.append(text[start:at].strip())
            start = at + 1
        if depth == 0:
            break
    return found


def throwing_calls(text):
    """Lines of calls of std::filesystem whose last argument is no std::error_code of the file."""
    text = "\n".join(line.split("//")[0] for line in text.splitlines())
    codes = set(re.findall(r"error_code&?\s+(\w+)", text))
    for match in re.finditer(r"\b(?:fs|filesystem)::(\w+)\(", text):
        if match[1] not in NEVER_THROW and arguments(text, match.end())[-1] not in codes:
            yield text.count("\n", 0, match.start()) + 1


def test_throwing_calls():
    """The check finds what it looks for, and nothing else."""
    code = "std::error_code ignored;\n"
    for call in ("std::filesystem::exists(path)", "fs::rename(from, to)", "fs::file_size(Path(a, b))", "fs::current_path()",
                 "fs::copy_file(\n    from, to,\n    fs::copy_options::none)", "std::filesystem::remove_all(path, error)"):
        assert list(throwing_calls(code + "f(" + call + ");")) == [2], call
    for call in ("std::filesystem::exists(path, ignored)", "fs::rename(from,\n to, ignored)", "fs::path(a) / b",
                 "// fs::exists(path)", "fs::exists(fs::path(dir) / name, ignored)"):
        assert not list(throwing_calls(code + "f(" + call + "\n);")), call


def narrowed(text):
    """Lines that cast an extent, or an integer attribute, to 32 bits or fewer as it stands."""
    for match in re.finditer(r"static_cast<(?:unsigned|u?int(?:16|32)_t|int)>\(", text):
        if re.fullmatch(r"(?:\w+(?:\(\w*\))?(?:\[\w+\])?(?:\.|->))*(?:value|dim|num_elements|NumElements|Int)\([^()]*(?:\([^()]*\))?\)",
                        arguments(text, match.end())[0]):
            yield text.count("\n", 0, match.start()) + 1


def test_narrowed():
    for cast in ("static_cast<int>(s[0].value())", "static_cast<int>(x.dim(-1))", 'static_cast<uint32_t>(run.Int("seed"))',
                 "static_cast<int32_t>(\n    call.shape(0)[i].value())", "static_cast<int>(NumElements(x.dims()))"):
        assert list(narrowed("a;\n" + cast)) == [2], cast
    for cast in ("static_cast<int>(dims.size())", "static_cast<int64_t>(d.value())", "static_cast<int>(i)",
                 "static_cast<size_t>(x.dim(0))"):
        assert not list(narrowed(cast)), cast


def main():
    test_throwing_calls()
    test_narrowed()
    root = pathlib.Path(__file__).resolve().parents[2]
    breaches = 0
    for top in ["lib", "datasets", "passes", "runtime", "quant", "tools", "tests"]:
        for f in sorted((root / top).rglob("*")):
            if f.suffix not in {".h", ".cc"}:
                continue
            name = f.relative_to(root).as_posix()
            here = folder_of(name, ALLOWED)
            text = f.read_text()
            for n in throwing_calls(text) if top != "tests" else ():
                print(f"{name}:{n}: {NO_THROW}: {text.splitlines()[n - 1].strip()}")
                breaches += 1
            casts = list(narrowed(text)) if top not in ("tests", "tools") else []
            if len(casts) > NARROWED.get(name, (0, ""))[0]:
                print(f"{name}:{casts[-1]}: an extent that a model declares may be 2^40: compare it first, and say so in NARROWED")
                breaches += 1
            for n, line in enumerate(text.splitlines(), 1):
                for pattern, better in INSTEAD.items():
                    if top != "tests" and re.search(pattern, line.split("//")[0]):
                        print(f"{name}:{n}: {better}: {line.strip()}")
                        breaches += 1
                for pattern, door in BEHIND.items():
                    if re.match("#include " + pattern, line) and not name.startswith(door):
                        print(f"{name}:{n}: only {door}* may have {line}")
                        breaches += 1
                if m := re.match(r'#include "([^"]+)"', line):
                    target = m[1]
                    ok = here and (target.startswith(here + "/") or folder_of(target, ALLOWED[here]))
                    if not ok:
                        print(f"{name}:{n}: {here} may not include {target}")
                        breaches += 1
                elif m := re.match(r"#include (<[^>]+>)", line):
                    for pattern, places in ONLY_IN.items():
                        if re.match(pattern, m[1]) and not folder_of(name, places):
                            print(f"{name}:{n}: {m[1]} belongs in {', '.join(places)} only")
                            breaches += 1
    print(f"check_layers: {breaches} breaches")
    return breaches > 0


if __name__ == "__main__":
    sys.exit(main())
