#!/usr/bin/env bash
# ThreadSanitizer over what it can see: lanes, queues, the engine, the executor on standard threads, plans and devices. OpenMP's runtime is not
# instrumented, so suites of the cpu backend would report it.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests="support_test ir_test engine_test suite_mock device_test plan_ir_test"
cmake --preset tsan >/dev/null
# shellcheck disable=SC2086  # several targets
cmake --build --preset tsan -j "$(nproc)" --target $tests | tail -1
for t in $tests; do INFER_SANITIZED=1 "build/tsan/bin/$t" --gtest_brief=1; done
