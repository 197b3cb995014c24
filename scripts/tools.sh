#!/usr/bin/env bash
# Puts the pinned tools of tools/tools.txt, and those of the module tools, into a folder. Each is built once for its version and Go's, and kept in the user's
# cache (KAGED_TOOLS_CACHE), so that another checkout, or one after make clean, does not build it again.
# Usage: tools.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
cache=${KAGED_TOOLS_CACHE:-${XDG_CACHE_HOME:-${HOME:-$PWD/bin}/.cache}/kaged/tools}/$(go env GOVERSION)
mapfile -t packages < <(grep . tools/tools.txt)
mkdir -p "$out" "$cache"
building=$(mktemp -d "$cache/.building.XXXXXX")
trap 'rm -rf "$building"' EXIT
for i in "${!packages[@]}"; do
	package=${packages[$i]}
	name=$(basename "${package%@*}")
	kept=$cache/$name@${package##*@}
	if [ ! -x "$kept" ]; then
		echo "tools: building $name ${package##*@} ($((i + 1)) of ${#packages[@]}; once, up to some minutes)" >&2
		GOWORK=off GOFLAGS=-buildvcs=false GOBIN="$building" go install "$package"
		mv "$building/$name" "$kept"
	fi
	ln -sf "$kept" "$out/$name"
done

# Absolute, because the folder is given relative to the root of the repository.
out=$(cd "$out" && pwd)
(cd tools && GOWORK=off GOFLAGS=-buildvcs=false go build -o "$out/" ./kagedvet ./prose)
