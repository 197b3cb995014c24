#!/usr/bin/env bash
# What make check does after the generated files: formatting, tidy modules, vet, lint, cross builds.
set -euo pipefail
cd "$(dirname "$0")/.."
fail=0
note() { echo "check: $*" >&2; fail=1; }
begun=$SECONDS
step() { echo "check: [$((SECONDS - begun))s] $*" >&2; }

step "format"
unformatted=$(git ls-files '*.go' | grep -v '^proto/gen/' | xargs gofumpt -l)
[ -z "$unformatted" ] || note "not formatted (make fmt): $unformatted"

for m in proto pkg services test; do
	step "go mod tidy, go vet in $m"
	(cd $m && GOWORK=off go mod tidy -diff >/dev/null) || note "$m/go.mod is not tidy: cd $m && GOWORK=off go mod tidy"
	(cd $m && GOWORK=off go vet -tags faults ./...) || note "go vet fails in $m"
done
step "kagedvet: error comparisons, imports, waiting in tests"
go vet -tags faults -vettool="$(command -v kagedvet)" ./pkg/... ./services/... ./test/... || note "kagedvet has findings"
(cd tools && GOWORK=off go mod tidy -diff >/dev/null && GOWORK=off go vet ./...) || note "tools: not tidy, or go vet fails"

step "buf breaking: wire and JSON names against proto/baseline.binpb"
breaking() {
	local now
	now=$(mktemp --suffix=.binpb)
	# An image is one module, the workspace is two: images are compared.
	buf build --exclude-source-info -o "$now" &&
		buf breaking "$now" --against proto/baseline.binpb --config '{"version":"v2","breaking":{"use":["WIRE_JSON"]}}'
	local failed=$?
	rm -f "$now"
	return $failed
}
breaking ||
	note "messages changed in a way that breaks readers of the wire, JSON or the database. If no release has stored or sent them: make breaking-baseline"

step "staticcheck (the slowest step)"
staticcheck -tags faults ./pkg/... ./services/... ./test/... || note "staticcheck has findings"

# What needs no cgo also builds where developers sit.
for os in darwin; do
	for arch in amd64 arm64; do
		step "build for $os/$arch"
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -o /dev/null ./services/kaged/cmd/kaged || note "no build for $os/$arch"
	done
done

# Cages also work on the other architecture: their init, and the filter that is made for each.
for arch in amd64 arm64; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -o /dev/null ./services/sandbox-supervisor/cageinit || note "no cage init for $arch"
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build ./services/sandbox-supervisor/internal/seccomp || note "no system call filter for $arch"
done

if command -v npm >/dev/null; then
	step "console: services/gateway/web/dist against its sources"
	scripts/web.sh --check || note "the console is stale or does not build: make web"
fi

step "prose: comments and line lengths against tools/prose/baseline.tsv"
scripts/prose.sh || note "comments got harder to read or lines longer: docs/STYLE.md"

step "paths, scripts, commit subjects"
git grep -nE '(^|[^A-Za-z])/(work|farm)/' -- . ':!*.sum' ':!scripts/check.sh' && note "paths of one machine in the tree"
git grep -nE '^(<<<<<<<|>>>>>>>) ' && note "conflict markers in the tree"
bash -n scripts/*.sh scripts/commit-msg examples/*.sh .ci/run || note "a script does not parse"
# Commit subjects have had their form since this commit; a shallow clone without it has nothing to compare with.
since=bdfbaa6
if git cat-file -e "$since^{commit}" 2>/dev/null; then
	scripts/commit-msg --range "$since..HEAD" || note "commit subjects: see docs/STYLE.md"
fi
[ $fail = 0 ] && echo "check: ok"
exit $fail
