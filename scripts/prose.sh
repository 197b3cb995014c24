#!/usr/bin/env bash
# Holds comments and line lengths to docs/STYLE.md: counts per package only go down. Usage: prose.sh [-update]
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.go' | grep -vE '^proto/gen/|_gen\.go$|\.sql\.go$|^pkg/frametype/table\.go$|/testdata/' | xargs -r ls 2>/dev/null | prose "$@"
