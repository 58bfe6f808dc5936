#!/usr/bin/env bash
# usage: tools/ci/nightly.sh [--go-on] [FUZZ_SECONDS]
# What runs by night, outside of .ci/run: the nightly tests (tests/differential, tests/failures and others), the quick tests
# on a machine under load, batches beside single files, the thread sanitizer, models and mutants from the seeds of this day,
# then each fuzzer for FUZZ_SECONDS of processor time (default 10800). A line with a finding names the seed or the file that
# makes it again. With --go-on a run that was cut off continues: tests that passed are not run again unless a change can
# affect them (tools/ci/in_parts.py), other steps that ended well not at the same commit.
set -euo pipefail
cd "$(dirname "$0")/../.."
ledger=build/nightly/tests.jsonl steps=build/nightly/steps
mkdir -p build/nightly
if [ "${1:-}" = --go-on ]; then shift; else rm -f $ledger $steps; fi
touch $steps
seconds=${1:-10800}
day=$(($(date +%s) / 86400))
commit="$(git rev-parse HEAD) $(git diff HEAD | sha256sum)"
export OMP_WAIT_POLICY=passive
tools/setup.sh --judges --checks --packages
[ -d build/release ] || cmake --preset release -DINFER_BATCHED=ON >/dev/null
cmake --build --preset release -j "$(nproc)" --target all nightly_tests | tail -1
failed=0
tools/ci/in_parts.py build/release $ledger -L nightly -LE clock || failed=1
# Times are judged by tests that run alone.
tools/ci/in_parts.py build/release $ledger --jobs 1 -L clock || failed=1

# step NAME COMMAND...: not again where it ended well at this commit
step() {
  if grep -qxF "$1 $commit" $steps; then
    echo "$1: ended well before, at this commit"
  elif "${@:2}"; then
    echo "$1 $commit" >>$steps
  else
    failed=1
  fi
}
# Hostile extents ask for memory that is there: a limit, as containers have one.
generated() { (cd build/nightly && ulimit -v 8000000 && ../release/bin/generated_models "$@"); }

for check in busy batches tsan; do step $check "tools/ci/$check.sh"; done
step models generated 60000 "${day}000000"
step mutants generated --mutants 300000 "${day}000000" 7200
step fuzzers tools/ci/fuzz.sh "$seconds" "$day"
exit $failed
