#!/usr/bin/env bash
# The main job on the demo model: inspect, fuse, quantize with an accuracy gate, run, benchmark.
# Everything it writes goes to build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
if [ ! -x build/release/bin/infer-opt ] || [ -n "$(find lib passes quant runtime tools datasets -newer build/release/bin/infer-opt -name '*.cc' -print -quit)" ]; then
  cmake --preset release >/dev/null
  cmake --build --preset release -j "$(nproc)" --target infer-opt infer-bench
fi
bin=build/release/bin
demo=datasets/demo
out=build/demo
mkdir -p "$out"
say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }
