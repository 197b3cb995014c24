// Package runs carries out runs: it gives the harness a run's inputs, relays its events as frames, and stores every
// step before the harness goes on.
//
// A run has two sides. The relay reads the harness's events in order and turns each into a frame at once. It hands
// records to the keeper, which commits them, in order, and only then lets the harness know; the relay waits for the
// store only while sixteen records are waiting already. So the model's words reach the screen while a step is being
// committed, and no tool with effects runs before the turn that asked for it is on disk. A turn the harness does
// not wait for is held back for a moment, because its results follow at once where its tools only look; then both
// go in one transaction.
//
// However a run ends, it ends once, in one transaction: its message, composed from its steps, its totals, the
// session's state, and the frames that say so. When the stream from the harness breaks, the completed steps are
// kept and the run has failed as interrupted. When the session's lease is lost, no row is written at all: the next
// holder ends the run from its stored steps, as [Interrupted] says.
//
// Goroutines: two per run, relay and keeper. Both have ended when [Run.Done] is closed.
package runs
