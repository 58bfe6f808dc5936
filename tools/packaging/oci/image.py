#!/usr/bin/env python3
"""An OCI image of the commands, without a container engine: one layer of the tarball's files in /usr, glibc, the C++ runtime, /tmp.

usage: image.py BUILD OUT

Writes the OCI layout OUT (image-spec 1.0: oci-layout, index.json, blobs): `skopeo copy oci:OUT:latest docker-daemon:infer-opt:latest`,
`podman load`, `umoci unpack` read it. Nothing but the commands is inside, no shell either. The same build and libraries
give the same bytes."""
import datetime
import gzip
import hashlib
import json
import pathlib
import platform
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from bundle import SYSTEM, output_of  # noqa: E402
from tarball import EPOCH, pack, tree, version  # noqa: E402

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def root_of(build, root):
    (root / "usr").mkdir(parents=True)
    tree(build, root / "usr")
    programs = sorted((root / "usr/bin").iterdir())
    # A driver's program loader asks for these by name, too, whatever the commands are linked to.
    for program in programs:
        for name, path in re.findall(r"^\s*(?:(\S+) => )?(/\S+)", output_of("ldd", program), re.M):
            if SYSTEM.match(name or pathlib.Path(path).name):
                to = root / path.lstrip("/")
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(pathlib.Path(path).resolve(), to)
    (root / "tmp").mkdir()
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/usr/bin/infer-opt\n")


class Layout:
    def __init__(self, folder):
        self.blobs = folder / "blobs/sha256"
        self.blobs.mkdir(parents=True)
        self.folder = folder

    def add(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (self.blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(data)}

    def add_json(self, value, kind):
        return self.add(json.dumps(value, sort_keys=True).encode(), kind)


def image(root, out):
    shutil.rmtree(out, ignore_errors=True)
    layout = Layout(out)
    with tempfile.TemporaryDirectory() as work:
        packed = pathlib.Path(work, "layer.tar.gz")
        pack(root, ".", packed)
        layer = packed.read_bytes()
    created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {"created": created, "architecture": ARCHITECTURES[platform.machine()], "os": "linux",
              "config": {"Entrypoint": ["/usr/bin/infer-opt"], "Cmd": ["--help"], "Env": ["PATH=/usr/bin"], "WorkingDir": "/work",
                         "Labels": {"org.opencontainers.image.title": "infer-opt", "org.opencontainers.image.version": version(),
                                    "org.opencontainers.image.licenses": "Apache-2.0"}},
              "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(gzip.decompress(layer)).hexdigest()]},
              "history": [{"created": created, "created_by": "tools/packaging/oci/image.py"}]}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": layout.add_json(config, "config.v1+json"), "layers": [layout.add(layer, "layer.v1.tar+gzip")]}
    entry = layout.add_json(manifest, "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (out / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (out / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    return len(layer)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, out = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work, "root")
        root_of(build, root)
        (root / "work").mkdir()
        print(f"{out}: {image(root, out)} bytes compressed")


if __name__ == "__main__":
    main()
