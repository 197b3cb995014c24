// Package stored encodes the rows of steps and snapshots as messages of kaged.sessionmanager.storage.v1. These have the
// field numbers of the harness's messages, so the encoding turns one into the other; a field of the wire alone is left
// out of the row. The tests fail when the two contracts part: then this package converts.
package stored
