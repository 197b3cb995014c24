#!/usr/bin/env bash
# Builds the console into services/gateway/web/dist, which is committed, and the TypeScript client into clients/ts/dist, which is not.
# With --check it fails if the committed console is another than what its sources give. With --client it builds the client alone, with --test
# also what tests of the console need.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v npm >/dev/null || { echo "The console is built with Node 20 or later: install it, with npm, and try again." >&2; exit 1; }
# packages FOLDER: installs what its lock file names, unless that is there. No package runs a script of its own.
packages() {
	local mark=$1/node_modules/.installed
	[ ! "$1/package-lock.json" -nt "$mark" ] || { (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) && touch "$mark"; }
}
packages clients/ts
(cd clients/ts && npm run --silent build)
[ "${1:-}" != --client ] || exit 0
web=services/gateway/web
packages $web
[ "${1:-}" != --test ] || exit 0
(cd $web && npm run --silent check -- --output machine >/dev/null) || (cd $web && npm run --silent check)
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
[ "${1:-}" != --check ] || cp -r $web/dist "$before/"
(cd $web && npx --no-install vite build --logLevel error)
if [ "${1:-}" = --check ]; then
	# gzip of another Node may pack the same text in another way.
	unpack() { (cd "$1" && for f in *; do case $f in *.gz) gzip -dc "$f" | sha256sum | sed "s/-/$f/" ;; *) sha256sum "$f" ;; esac; done); }
	diff <(unpack "$before/dist") <(unpack $web/dist) >&2 || { echo "services/gateway/web/dist is stale: type  make web  and commit it" >&2; exit 1; }
fi
