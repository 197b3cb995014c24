// Package stored encodes the rows of steps and snapshots as messages of kaged.sessionmanager.storage.v1. These have
// the field numbers of the harness's messages, so that re-encoding converts one into the other; fields that only
// the wire has are dropped. The tests fail if the two definitions diverge; then this package must convert.
package stored
