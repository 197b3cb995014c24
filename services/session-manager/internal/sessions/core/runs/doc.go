// Package runs carries out runs: it gives the harness a run's inputs, relays the harness's events as frames, and
// stores every step before the harness continues.
//
// A run has two parts. The relay reads the harness's events in order and turns each into a frame at once. It hands
// records to the keeper, which commits them in order and only then tells the harness. The relay waits for the store
// only if sixteen records are queued, or to keep frames behind the beginning or end of an agent below the root. So
// the model's text reaches clients while a step is being committed, and no tool with effects runs before the turn
// that called it is on disk. If the harness does not wait for a turn, because its tools only read, the keeper
// delays the commit briefly, so that the results, which follow at once, go into the same transaction.
//
// A run ends once, in one transaction: its message, composed from its steps, its totals, the session's state, and
// the frames about the end. If the harness's stream breaks, the completed steps are kept and the run fails as
// interrupted. If the session's lease is lost, no further row is written: the next holder ends the run from its
// stored steps, see [Interrupted]. At a safe point a run can instead be handed over: the next holder continues it,
// see [Continued].
//
// Goroutines: the relay, the keeper, one that hands the run to the harness and reads its events up to the first model
// call, one for each pending approval, and short ones that send to the harness or await the end of an agent. They end
// with the run.
package runs
