#!/usr/bin/env bash
# A whole session with no key and no network: an agent repairs the failing test of examples/wordcount. A script plays the
# model; everything else is real. Ends in "demo: PASS". Usage: demo.sh PATH_OF_KAGED
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kaged=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
project=$dir/wordcount
cp -r "$here/wordcount" "$project"
git -C "$project" init -q
git -C "$project" add -A
git -C "$project" -c user.name=demo -c user.email=demo@localhost commit -qm "before"

cat >"$dir/local.toml" <<EOF
[models]
smart-generalist = "rehearsal:wordcount"

[providers.rehearsal]
script = "$here/wordcount.rehearsal.yaml"
EOF
unset KAGED_DATABASE_URL KAGED_NATS_URL KAGED_INSECURE KAGED_URL
echo "demo: the tests before"
(cd "$project" && go test ./... || true) 2>&1 | sed 's/^/    /'
echo "demo: kaged run \"fix the failing test\""
"$kaged" run --config "$dir/local.toml" --data-dir "$dir/data" --project "$project" "fix the failing test" || {
	echo "demo: FAIL: the run did not complete" >&2
	exit 1
}
echo "demo: what the agent changed"
git -C "$project" --no-pager diff --stat -p -- '*.go'
echo "demo: the tests after"
(cd "$project" && go test ./...) || { echo "demo: FAIL: the test does not pass" >&2; exit 1; }
echo "demo: PASS"
