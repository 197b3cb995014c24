#!/usr/bin/env bash
# Prints the commit that the tree was built from, with -dirty for one that was changed since; nothing where the folder is no
# checkout of its own, such as an unpacked archive, or there is no git.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] || exit 0
commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || exit 0
git diff-index --quiet HEAD -- 2>/dev/null || commit+=-dirty
echo "$commit"
