#!/usr/bin/env python3
"""A wheel of infer_opt with libinfer.so.0 inside.

usage: build_wheel.py [--bundle] LIBINFER_SO OUTPUT_FOLDER

--bundle: with the shared libraries that it needs and their licences, for any Linux with glibc 2.36 or newer (needs patchelf); else they
are Debian 12's and must be installed where the wheel runs. The same libraries give the same bytes."""
import base64
import hashlib
import pathlib
import platform
import re
import shutil
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def version():
    return re.search(r"project\(infer-opt VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def libraries_of(library, bundled):
    """What lies beside the module, and licences, by name in the wheel."""
    if not bundled:
        return {"infer_opt/libinfer.so.0": pathlib.Path(library).read_bytes()}, {}
    sys.path.insert(0, str(HERE.parent))
    from bundle import bundle
    with tempfile.TemporaryDirectory() as work:
        beside, licences = pathlib.Path(work, "infer_opt"), pathlib.Path(work, "licences")
        beside.mkdir()
        shutil.copy(library, beside / "libinfer.so.0")
        bundle([beside / "libinfer.so.0"], set(), beside, licences)
        return tuple({f"{folder.name}/{p.name}": p.read_bytes() for p in sorted(folder.iterdir())} for folder in (beside, licences))


def build(library, folder, bundled=False):
    number, tag = version(), f"py3-none-linux_{platform.machine()}"
    info = f"infer_opt-{number}.dist-info"
    metadata = (f"Metadata-Version: 2.1\nName: infer-opt\nVersion: {number}\nSummary: Run, fuse, quantize, prune and compare ONNX models\n"
                "License: Apache-2.0\nRequires-Python: >=3.9\n")
    sources = sorted(p for p in (HERE / "infer_opt").iterdir() if p.suffix in (".py", ".pyi", ".typed"))
    libraries, licences = libraries_of(library, bundled)
    files = {**{f"infer_opt/{p.name}": p.read_bytes() for p in sources}, **libraries,
             **{f"{info}/{name}": data for name, data in licences.items()}, f"{info}/METADATA": metadata.encode(), f"{info}/LICENSE": (ROOT / "LICENSE").read_bytes(),
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
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return path


def main():
    bundled = "--bundle" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--bundle"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    print(build(*arguments, bundled))


if __name__ == "__main__":
    main()
