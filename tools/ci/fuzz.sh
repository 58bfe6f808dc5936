#!/usr/bin/env bash
# usage: tools/ci/fuzz.sh [SECONDS [SEED [TARGET...]]]
# Builds the fuzz targets with clang and runs each for SECONDS (default 60) of processor time: all at once, for longer where
# they are more than the cores, so that no core waits for the last one. SEED (default 1) makes a run on a fresh build folder
# repeatable; 0 picks one by the clock. Seeds of import and text are made of the operators' examples, those of runs by the
# generator of tests/differential; tests/fuzz/corpus keeps what once was a finding. run_fuzz imports, fuses and runs whole
# models, which takes time. A finding stays in build/fuzz/findings and fails the run.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
seed=${2:-1}
targets="${*:3}"
targets=${targets:-import_fuzz text_fuzz fuzz_data_readers run_fuzz}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)" \
  --target make_corpus $targets | tail -1
cores=$(nproc)
# shellcheck disable=SC2086  # several targets
count=$(wc -w <<<$targets)
wall=$((seconds * (count > cores ? count : cores) / cores))
bin=build/fuzz/bin
corpus=build/fuzz/corpus
mkdir -p build/fuzz/findings "$corpus/data_readers" tests/fuzz/corpus/run
"$bin/make_corpus" "$corpus"

# run TARGET CORPUS...: what it finds new goes to the first folder
run() {
  local log="build/fuzz/$1.log"
  local limits="-max_len=16384 -timeout=10 -rss_limit_mb=2048"
  [ "$1" = run_fuzz ] && limits="-max_len=65536 -timeout=60 -rss_limit_mb=4096"
  # shellcheck disable=SC2086  # several options
  if "$bin/$1" "${@:2}" -seed="$seed" -max_total_time="$wall" $limits \
    -artifact_prefix="build/fuzz/findings/$1-" -print_final_stats=1 >"$log" 2>&1; then
    echo "fuzz: $1: $(grep -o 'number_of_executed_units: *[0-9]*' "$log"), no finding in $wall s"
  else
    tail -60 "$log"
    echo "fuzz: $1: FINDING, see above and build/fuzz/findings"
    return 1
  fi
}
export bin corpus wall seed
export -f run
for target in $targets; do
  folder=${target/fuzz_/}
  folder=${folder/_fuzz/}
  echo "$target $corpus/$folder tests/fuzz/corpus/$folder"
done | xargs -P "$count" -I{} bash -c 'run {}'
