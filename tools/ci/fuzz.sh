#!/usr/bin/env bash
# usage: tools/ci/fuzz.sh [SECONDS]
# Builds the fuzz targets with clang and runs each for SECONDS (default 60). Seeds of import and
# text are made of the operators' examples. A finding stays in build/fuzz/findings and fails the run.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)" \
  --target import_fuzz text_fuzz make_corpus fuzz_data_readers | tail -1
bin=build/fuzz/bin
corpus=build/fuzz/corpus
mkdir -p build/fuzz/findings "$corpus/data_readers"
"$bin/make_corpus" "$corpus"

# run TARGET CORPUS: what it finds new goes to the first folder
run() {
  "$bin/$1" "${@:2}" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/fuzz/findings/$1-" -print_final_stats=1
}
run import_fuzz "$corpus/import"
run text_fuzz "$corpus/text"
run fuzz_data_readers "$corpus/data_readers" tests/fuzz/corpus/data_readers
