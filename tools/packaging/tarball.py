#!/usr/bin/env python3
"""The commands with their shared libraries beside them, as a tarball for any x86-64 Linux with glibc 2.36 or newer.

usage: tarball.py BUILD OUT

BUILD: a build folder whose commands are built. Writes OUT/infer-opt-VERSION-linux-x86_64.tar.gz and its bill of materials
(.spdx.json). The same build and libraries give the same bytes; SOURCE_DATE_EPOCH sets the time of all files."""
import datetime
import gzip
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import bundle
from bill_of_materials import bill_of_materials

ROOT = pathlib.Path(__file__).resolve().parents[2]
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "1700000000"))


def version():
    return re.search(r"project\(infer-opt VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def tree(build, folder):
    """Installs and bundles into the folder; returns the bill of materials."""
    env = dict(os.environ, INFER_INSTALL_AS_IT_IS="1")
    subprocess.run(["cmake", "--install", build, "--component", "tools", "--prefix", folder], check=True, stdout=subprocess.DEVNULL, env=env)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    shutil.copytree(ROOT / "docs/ci", folder / "share/infer-opt/ci")
    with tempfile.TemporaryDirectory() as work:
        found = bundle.made({f"bin/{p.name}": p for p in sorted((folder / "bin").iterdir())}, "lib", work)
    for name, data in {**found.files, **{f"share/doc/infer-opt/licences/{n}": d for n, d in found.licences.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if name.startswith("bin/") else 0o644)
    created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    bill = bill_of_materials("infer-opt", version(), found, created)
    (folder / "share/doc/infer-opt/bill-of-materials.spdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    return bill


def pack(folder, name, out):
    """tar.gz of a folder under another name: sorted, of root, of one time."""
    with open(out, "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z, tarfile.open(fileobj=z, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for path in [folder, *sorted(folder.rglob("*"))]:
            entry = t.gettarinfo(path, str(pathlib.Path(name) / path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = EPOCH
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            if entry.isfile():
                with open(path, "rb") as data:
                    t.addfile(entry, data)
            else:
                t.addfile(entry)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, out = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    name = f"infer-opt-{version()}-linux-{platform.machine()}"
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work, name)
        bill = tree(build, folder)
        pack(folder, name, out / (name + ".tar.gz"))
    (out / (name + ".spdx.json")).write_text(json.dumps(bill, indent=1) + "\n")
    print(out / (name + ".tar.gz"), (out / (name + ".tar.gz")).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
