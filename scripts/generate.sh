#!/usr/bin/env bash
# Generates code and reference pages from their sources. With --check it does so in a copy, and fails if something other
# comes out than what is there.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --check ]; then
	# The folder is the same each time, because Go's build cache knows packages of a workspace by their folder.
	copy=$PWD/bin/generate-check
	rm -rf "$copy"
	mkdir -p "$copy"
	trap 'rm -rf "$copy"' EXIT
	git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - 2>/dev/null | tar -xf - -C "$copy"
	cd "$copy"
	git init -q && git add -A && git -c user.name=check -c user.email=check@localhost commit -qm before
fi
step() { echo "generate: $*" >&2; }
step "buf"
buf lint
buf format -d --exit-code --path proto/kaged >/dev/null || { echo "proto files are not formatted: run  buf format -w --path proto/kaged" >&2; exit 1; }
buf generate
step "sqlc"
for queries in services/*/sqlc.yaml; do (cd "${queries%/*}" && sqlc generate); done
step "conversions between types"
(cd tools && GOWORK=off go build -o ../bin/convert ./convert)
bin/convert
step "go generate (reference pages, error codes)"
go generate ./pkg/... ./services/... ./test/...
if [ "${1:-}" = --check ]; then
	[ -z "$(git status --porcelain)" ] && exit 0
	git --no-pager diff --stat >&2
	git status --porcelain >&2
	echo "generated files are stale: run  make generate  and commit" >&2
	exit 1
fi
