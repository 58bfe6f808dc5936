#!/usr/bin/env python3
"""A wheel of infer_opt with libinfer.so.0, infer-bench and the shared libraries that they need inside, all but glibc's and GCC's.

usage: build_wheel.py LIBINFER_SO INFER_BENCH OUTPUT_FOLDER

Wants a Debian system with patchelf and binutils: the licences are those of the packages that the libraries come from. The same files
give the same bytes. The wheel is for any Python from 3.9 on, since nothing is compiled against it, and says which glibc it needs."""
import base64
import hashlib
import pathlib
import platform
import re
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
import bundle  # noqa: E402


def version():
    return re.search(r"project\(infer-opt VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def metadata(number):
    return (f"Metadata-Version: 2.1\nName: infer-opt\nVersion: {number}\nSummary: Run, fuse, quantize, prune, compare and time ONNX models\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\n")


def record(files, info):
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    return "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()


def write(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.external_attr = (0o100755 if data.startswith(b"\x7fELF") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


def build(library, bench, folder):
    number = version()
    info = f"infer_opt-{number}.dist-info"
    sources = sorted(p for p in (HERE / "infer_opt").iterdir() if p.suffix in (".py", ".pyi", ".typed"))
    with tempfile.TemporaryDirectory() as work:
        found = bundle.made({"infer_opt/libinfer.so.0": library, "infer_opt/bin/infer-bench": bench}, "infer_opt.libs", work)
    tag = f"py3-none-manylinux_{found.glibc[0]}_{found.glibc[1]}_{platform.machine()}"
    files = {**{f"infer_opt/{p.name}": p.read_bytes() for p in sources}, **found.files,
             f"{info}/METADATA": metadata(number).encode(), f"{info}/LICENSE": (ROOT / "LICENSE").read_bytes(),
             **{f"{info}/licenses/{name}": data for name, data in found.licences.items()},
             f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: infer-opt\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()}
    files[f"{info}/RECORD"] = record(files, info)
    path = pathlib.Path(folder) / f"infer_opt-{number}-{tag}.whl"
    write(path, files)
    return path


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        print(build(*sys.argv[1:]))
    except (bundle.Missing, OSError) as e:
        sys.exit(f"build_wheel.py: {e}")


if __name__ == "__main__":
    main()
