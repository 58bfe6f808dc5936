#!/usr/bin/env python3
"""A wheel of infer_opt with libinfer.so.0 inside. The shared libraries that it needs are Debian 12's and must be installed where it runs.

usage: build_wheel.py LIBINFER_SO OUTPUT_FOLDER

The same library gives the same bytes."""
import base64
import hashlib
import pathlib
import platform
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def version():
    return re.search(r"project\(infer-opt VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def build(library, folder):
    number, tag = version(), f"py3-none-linux_{platform.machine()}"
    info = f"infer_opt-{number}.dist-info"
    metadata = (f"Metadata-Version: 2.1\nName: infer-opt\nVersion: {number}\nSummary: Run, fuse, quantize, prune and compare ONNX models\n"
                "License: Apache-2.0\nRequires-Python: >=3.9\n")
    sources = sorted(p for p in (HERE / "infer_opt").iterdir() if p.suffix in (".py", ".pyi", ".typed"))
    files = {**{f"infer_opt/{p.name}": p.read_bytes() for p in sources}, "infer_opt/libinfer.so.0": pathlib.Path(library).read_bytes(),
             f"{info}/METADATA": metadata.encode(), f"{info}/LICENSE": (ROOT / "LICENSE").read_bytes(),
             f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: infer-opt\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()}
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    path = pathlib.Path(folder) / f"infer_opt-{number}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.external_attr = (0o755 if name.endswith(".so.0") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return path


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(build(sys.argv[1], sys.argv[2]))


if __name__ == "__main__":
    main()
