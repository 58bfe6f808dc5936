#!/bin/bash
# usage: tools/ci/fuzz.sh [SECONDS]
# Builds the fuzz targets with clang and runs each for SECONDS (default 60) from seeds made of the
# operators' examples. A finding stays in build/fuzz/findings and fails the run.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target import_fuzz text_fuzz make_corpus
bin=build/fuzz/bin
corpus=build/fuzz/corpus
mkdir -p build/fuzz/findings
$bin/make_corpus "$corpus"
for target in import text; do
  "$bin/${target}_fuzz" "$corpus/$target" -max_total_time="$seconds" -max_len=16384 -timeout=10 \
    -rss_limit_mb=2048 -artifact_prefix="build/fuzz/findings/${target}-" -print_final_stats=1
done
