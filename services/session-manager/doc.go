// Package sessionmanager stores projects, sessions, messages and runs, carries runs out through the harness, and
// numbers each session's frames.
//
// Each context (sessions, projects, operators, audit, logs) has its handlers, its core and its store below
// internal. Reads go to Postgres. A change of a session first makes it live (sessions/core/live): the process takes
// the session's lease, which every later write carries, so that one process at a time can write. A message and its
// run are stored in one transaction. Then sessions/core/runs opens the harness's stream, relays its events as
// frames (sessions/core/frames) and commits each step before the harness continues. Frames are numbered here,
// joined into batches, and appended to JetStream on condition of the last known message, so that JetStream too
// refuses a process that lost its lease.
//
// After a crash, committed data stays. The next holder of the lease, which is this node after its restart or
// another one after the lease has expired, publishes the frames in the outbox, ends the run with its stored steps,
// and resumes it in a new run only if the project wants that. A run that was handed over at a safe point continues
// instead.
//
// Goroutines: those that the packages of the contexts list, and one each for the connection to NATS, the audit
// log's partitions, the logs and the database's health. A live session has one while it is loaded, taken out,
// adopted or resumed, a few per active run, and one per channel with frames to publish; an idle session has none.
// All end before Run returns.
package sessionmanager
