#!/usr/bin/env bash
# Shows that compiling files in batches (INFER_BATCHED) changes no meaning: every library, compiled both ways without
# optimisation, must define and call the same functions. A name or using-declaration that changed what another file of its
# batch calls would show as a function that only one of the two names.
set -euo pipefail
cd "$(dirname "$0")/../.."
for batched in ON OFF; do
  cmake -S . -B "build/batches_$batched" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
    -DINFER_BUILD_TESTS=OFF -DINFER_BATCHED=$batched >/dev/null
  cmake --build "build/batches_$batched" -j "$(nproc)" | tail -1
done
# What a library names, without addresses and kinds: a call into another file is undefined in one build, defined in
# the other. Start-up code is named after its file; constants and guards of statics are numbered by the compiler, per file.
symbols() { nm -C "$1" 2>/dev/null | sed -nE 's/^[0-9a-f ]{16} [A-Za-z] (.*)/\1/p' | grep -vE '^(_GLOBAL__|__static_init|\.|C\.[0-9]|__tcf_[0-9])' | sort -u; }
differ=0
while read -r library; do
  name=${library#build/batches_ON/}
  if ! diff <(symbols "$library") <(symbols "build/batches_OFF/$name") >build/batches_diff.txt; then
    echo "batches: $name differs in $(grep -c '^[<>]' build/batches_diff.txt) names:"
    head -20 build/batches_diff.txt
    differ=1
  fi
done < <(find build/batches_ON -name 'libinfer_*.a' | sort)
[ $differ = 1 ] || echo "batches: every library names the same functions"
exit $differ
