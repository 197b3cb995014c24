// Package sessionmanager keeps projects, sessions, messages and runs, carries runs out at the harness, and is the one
// sequencer of each session's frames.
//
// Each context (sessions, projects, operators, audit) has its handlers, its core and its store below internal.
// Reading goes to Postgres. A change to a session makes it live first (sessions/core/live): the process takes the
// session's lease, which every later write names, so that of two processes one writes. A message and its run are
// one transaction; then sessions/core/runs opens the harness's stream, relays its events as frames
// (sessions/core/frames) and commits each step before the harness goes on. Frames are numbered here, joined into
// batches, and appended to JetStream behind the last one known, so that a process that lost its lease is refused
// there too.
//
// After a crash, committed data stands: the next holder of the lease, this node after its restart or another one
// when the lease has run out, publishes the frames that the store lists as unpublished, ends the run from its
// stored steps, and lets it go on in a new one only if the project says so.
//
// Goroutines: one connects to NATS and waits; one makes the audit record's partitions; five keep leases, look for
// runs without a holder, unload sessions, note published frames and tell workspaces of ended sessions; one per
// session being loaded, taken out or resumed; two per run at work; one per channel that has frames to publish; one
// per attached socket, gRPC's own. An idle session has no goroutine. All end before Run returns.
package sessionmanager
