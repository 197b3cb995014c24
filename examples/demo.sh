#!/usr/bin/env bash
# A whole session with no key and no network: three agents repair the failing test of examples/wordcount. A script plays the
# model; everything else is real. Ends in "demo: PASS". Usage: demo.sh PATH_OF_KAGED
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kaged=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
project=$dir/wordcount
cp -r "$here/wordcount" "$project"
rm -r "$project/.kaged"
mkdir "$project/.kaged"
cp -r "$here/team/project.yaml" "$here/team/prompts" "$project/.kaged/"
git -C "$project" init -q
git -C "$project" add -A
git -C "$project" -c user.name=demo -c user.email=demo@localhost commit -qm "before"

cat >"$dir/local.toml" <<EOF
[models]
smart-generalist = "rehearsal:wordcount"

[providers.rehearsal]
script = "$here/team/rehearsal.yaml"
EOF
unset KAGED_DATABASE_URL KAGED_NATS_URL KAGED_INSECURE KAGED_URL
export KAGED_CONFIG="$dir/local.toml" KAGED_DATA_DIR="$dir/data"
echo "demo: the tests before"
(cd "$project" && go test ./... || true) 2>&1 | sed 's/^/    /'
if ! "$kaged" cage exec --project "$project" --policy "$here/cages/read-only.yaml" -- true >/dev/null 2>&1; then
	echo "demo: this machine cannot make cages (kaged doctor says why); the agents run without"
	export KAGED_NO_SANDBOX=1
fi
echo "demo: kaged run \"fix the failing test\""
"$kaged" run --project "$project" "fix the failing test" || {
	echo "demo: FAIL: the run did not complete" >&2
	exit 1
}
echo "demo: what the agent changed"
git -C "$project" --no-pager diff --stat -p -- '*.go'
echo "demo: the tests after"
(cd "$project" && go test ./...) || { echo "demo: FAIL: the test does not pass" >&2; exit 1; }
echo "demo: PASS"
