#!/usr/bin/env bash
# Builds the init of cages, which becomes a part of every program that runs the sandbox supervisor. It is small and static, and
# built anew only where it changed, so that what embeds it is not.
# Usage: cageinit.sh [ARCHITECTURE]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-$(go env GOARCH)}
out=services/sandbox-supervisor/internal/adapter/box/init/cage-init-$arch
new=$(mktemp)
trap 'rm -f "$new"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -buildvcs=false -trimpath -ldflags '-s -w -buildid=' -o "$new" ./services/sandbox-supervisor/cageinit
cmp -s "$new" "$out" || install -m 0755 "$new" "$out"
