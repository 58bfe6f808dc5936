#!/usr/bin/env bash
# usage: tools/ci/tidy.sh [BASE]: clang-tidy over the .cc files changed since BASE (default: HEAD~1).
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset release >/dev/null
mapfile -t files < <(git diff --name-only --diff-filter=AM "${1:-HEAD~1}" -- '*.cc' | grep -v '^tests/install/')
[ ${#files[@]} -eq 0 ] && { echo "tidy: no changed files"; exit 0; }
clang-tidy-16 -p build/release --quiet --warnings-as-errors='*' "${files[@]}"
