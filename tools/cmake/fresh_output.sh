#!/bin/sh
# usage: fresh_output.sh COMMAND...: removes the file after -o, then runs COMMAND.
# A precompiled header is compiled with `-include` of its own name. Where an older result lies there, ccache takes
# it for an input and no longer looks at the headers, so that another checkout's header may come out.
output=
for argument in "$@"; do
  [ "$output" = next ] && rm -f -- "$argument"
  output=
  [ "$argument" = -o ] && output=next
done
exec "$@"
