#!/usr/bin/env bash
# clang-format over all tracked sources; names what is not formatted and fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(git ls-files '*.h' '*.hpp' '*.cc')
bad=$(printf '%s\0' "${files[@]}" | xargs -0 -n 100 -P "$(nproc)" clang-format-16 --dry-run 2>&1 | grep -oE '^[^:]+:[0-9]+' | sort -u || true)
if [ -n "$bad" ]; then
  printf 'not formatted:\n%s\n' "$bad"
  exit 1
fi
echo "format: ${#files[@]} files are formatted"
