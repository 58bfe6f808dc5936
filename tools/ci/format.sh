#!/usr/bin/env bash
# clang-format over all tracked sources; prints what is not formatted and fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(git ls-files '*.h' '*.cc')
clang-format-16 --dry-run --Werror "${files[@]}" 2>&1 | grep -oE '^[^:]+:[0-9]+' | sort -u | head -20 && exit 1
echo "format: ${#files[@]} files are formatted"
