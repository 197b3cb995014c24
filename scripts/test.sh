#!/usr/bin/env bash
# Runs every test with the race detector and with the crash points in, two packages at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/cageinit.sh
# A race-detector binary waits a second at its end for nothing.
export GORACE="atexit_sleep_ms=50 ${GORACE:-}"
exec go test -race -tags faults -p 2 -timeout 25m ${TESTFLAGS:-} ./proto/... ./pkg/... ./services/... ./test/...
