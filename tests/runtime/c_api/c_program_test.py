#!/usr/bin/python3
"""The programs of docs/library.md, in C11 and C++20, compiled against the headers and libinfer.so, run on the demo model."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, LIBRARY = os.environ["INFER_SOURCE"], os.environ["INFER_LIBRARY"]
MODEL = os.path.join(SOURCE, "datasets/demo/digits.onnx")


def check(language, suffix, compiler, standard, printed):
    text = open(os.path.join(SOURCE, "docs/library.md")).read()
    program = re.search(rf"```{language}\n(.*?)```", text, re.S)[1]
    folder = os.path.dirname(LIBRARY)
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "example." + suffix)
        with open(path, "w") as f:
            f.write(re.sub(r"<infer/(infer\.h(pp)?)>", r'"\1"', program))
        subprocess.run([compiler, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-I",
                        os.path.join(SOURCE, "runtime/c_api"), path, "-o", work + "/example", "-L", folder, "-linfer",
                        "-Wl,-rpath," + folder, "-lm"], check=True)
        ran = subprocess.run([work + "/example", MODEL], capture_output=True, text=True)
        missing = subprocess.run([work + "/example", work + "/none.onnx"], capture_output=True, text=True)
    print(compiler, ran.stdout + ran.stderr + missing.stderr)
    assert ran.returncode == 0 and re.search(printed, ran.stdout, re.M), ran.stdout
    assert missing.returncode == 1 and "none.onnx" in missing.stderr


def main():
    check("c", "c", "cc", "c11", r"10 numbers")
    check("cpp", "cc", "c++", "c++20", r"10 numbers")
    if shutil.which("clang++-16"):
        check("cpp", "cc", "clang++-16", "c++20", r"10 numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
