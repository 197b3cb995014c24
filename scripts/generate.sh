#!/usr/bin/env bash
# Generates code and reference pages from their sources. With --check it fails if what is committed is not what comes out.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
if [ "${1:-}" = --check ]; then
	# In a copy, so that a check changes nothing.
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	git ls-files -z --cached --others --exclude-standard | xargs -0 -I{} sh -c '[ -e "$1" ]' _ {} 2>/dev/null || true
	git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - 2>/dev/null | tar -xf - -C "$copy"
	cd "$copy"
fi
buf lint
buf format -d --exit-code --path proto/kaged >/dev/null || { echo "proto files are not formatted: run  buf format -w --path proto/kaged" >&2; exit 1; }
buf generate
(cd services/session-manager && sqlc generate)
go generate ./pkg/... ./services/...
if [ "${1:-}" = --check ]; then
	diff -r -q -x .git -x bin "$root" "$copy" | grep -E '^(Files|Only in '"$copy"')' | grep -v -E 'bench.json' && {
		echo "generated files are stale: run  make generate  and commit" >&2
		exit 1
	}
	exit 0
fi
