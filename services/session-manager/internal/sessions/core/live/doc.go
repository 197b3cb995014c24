// Package live holds the sessions that this process writes.
//
// A session is live while this process uses it: for a request that changes it, a socket that holds it, or a run.
// [Registry.Acquire] makes it live: it takes the session's lease, opens the writer of its frames, and repairs the
// state that the last holder left. A session that is unused for some time is unloaded and its lease released; an
// idle session costs only its rows.
//
// The repair has three steps. Markers in the session's channels make the stream refuse the last holder if it still
// runs. Outbox frames that the stream lacks are published. An active run is adopted if its holder handed it over;
// otherwise it ends as interrupted with its stored steps. If the project wants interrupted runs resumed, a new run
// then continues from there: the change that ends the old run stores that it is to be resumed, and the change that
// begins the new run clears it, so that a crash in between loses no resumption. Repairs happen at start, in a
// periodic sweep for runs without a holder, and whenever such a session is acquired.
//
// Every change of a session goes through [Session.Update] or [Session.Commit], one at a time, so that the frames
// about changes are published in the order of the changes.
//
// Goroutines: [Registry.Run] is one, and starts more for its periodic work. Each session being loaded, dropped,
// adopted or resumed has one. All end before Run returns.
package live
