#!/usr/bin/env bash
# usage: tools/packaging/release.sh OUT [BUILD]
# Makes what is released into OUT: Debian packages, tarball with its bill of materials, wheel, OCI image (as a tar), SHA256SUMS.
# BUILD (default build/release) is built first. SOURCE_DATE_EPOCH is the time of the commit. Needs patchelf.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "$1")
build=${2:-build/release}
[ -z "$(git status --porcelain)" ] || { echo "release: the working tree has changes" >&2; exit 1; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
[ -d "$build" ] || cmake --preset release -B "$build" >/dev/null
cmake --build "$build" -j "$(nproc)" --target infer-opt infer-bench infer infer_manual | tail -1
rm -rf "$out"
mkdir -p "$out"
(cd "$build" && cpack -G DEB -B "$out/deb" >/dev/null)
mv "$out"/deb/*.deb "$out"
rm -rf "$out/deb"
tools/packaging/tarball.py "$build" "$out"
tools/packaging/python/build_wheel.py "$build/lib/libinfer.so" "$build/bin/infer-bench" "$out"
tools/packaging/oci/image.py "$build" "$out/oci"
image=$(basename "$out"/infer-opt-*-linux-*.tar.gz .tar.gz)-oci.tar
tar -C "$out/oci" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf "$out/$image" .
rm -rf "$out/oci"
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
