#!/usr/bin/env bash
# Builds the pinned tools of tools/tools.txt into a folder, once for each version of that file.
# Usage: tools.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
stamp="$out/.stamp"
want=$(cat tools/tools.txt; go version)
[ -e "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && exit 0
mkdir -p "$out"
echo "building the pinned tools (once; a few minutes)" >&2
while read -r package; do
	[ -n "$package" ] && GOWORK=off GOFLAGS=-buildvcs=false GOBIN="$out" go install "$package"
done <tools/tools.txt
echo "$want" >"$stamp"
