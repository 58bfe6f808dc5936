#!/usr/bin/env bash
# ASan + UBSan build (preset dev), quick tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset dev >/dev/null
cmake --build --preset dev -j "$(nproc)" | tail -1
ctest --test-dir build/dev -L quick -j "$(nproc)" --output-on-failure | tail -15
