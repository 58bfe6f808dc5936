#!/bin/sh
# usage: fresh_output.sh COMMAND...: removes the file after -o, runs COMMAND, and writes the headers' checksum beside it.
# A precompiled header is compiled with `-include` of its own name. Where an older result lies there, ccache takes
# it for an input and no longer looks at the headers, so that another checkout's header may come out.
# clang's precompiled headers hold the checkout's path, so that no two checkouts have the same. With CCACHE_PCH_EXTSUM
# ccache reads the file .sum in its place: a checksum of all headers in it, in the order of the compiler's list (-MF).
set -e
output=
dependencies=
word=
for argument in "$@"; do
  case "$word" in
    -o) output=$argument ;;
    -MF) dependencies=$argument ;;
  esac
  word=$argument
done
rm -f -- "$output" "$output.sum"
"$@"
case "$output" in *.pch | *.gch) ;; *) exit 0 ;; esac
# TARGET: FILE FILE \ FILE ... Where one of them cannot be read there is no checksum, and ccache takes the header itself.
if tr -d '\\\n' <"$dependencies" | cut -d: -f2- | xargs cat >"$output.text"; then
  sha256sum <"$output.text" >"$output.sum"
fi
rm -f -- "$output.text"
