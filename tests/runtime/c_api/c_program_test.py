#!/usr/bin/python3
"""The program of docs/library.md, compiled as C11 against infer.h and libinfer.so, run on the demo model."""
import os
import re
import subprocess
import sys
import tempfile


def main():
    source, library = os.environ["INFER_SOURCE"], os.environ["INFER_LIBRARY"]
    text = open(os.path.join(source, "docs/library.md")).read()
    program = re.search(r"```c\n(.*?)```", text, re.S)[1]
    folder = os.path.dirname(library)
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "example.c")
        with open(path, "w") as f:
            f.write(program.replace("<infer/infer.h>", '"infer.h"'))
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I",
                        os.path.join(source, "runtime/c_api"), path, "-o", work + "/example", "-L", folder, "-linfer",
                        "-Wl,-rpath," + folder, "-lm"], check=True)
        ran = subprocess.run([work + "/example", os.path.join(source, "datasets/demo/digits.onnx")], capture_output=True,
                             text=True)
        missing = subprocess.run([work + "/example", work + "/none.onnx"], capture_output=True, text=True)
    print(ran.stdout + ran.stderr + missing.stderr)
    assert ran.returncode == 0 and re.search(r"^output Y?.*f32|10 numbers", ran.stdout, re.M), ran.stdout
    assert missing.returncode == 1 and "none.onnx" in missing.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
