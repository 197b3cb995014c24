// Package live keeps the sessions that this process writes.
//
// A session is live while it is used here: by a request that changes it, a socket that holds it, or a run.
// [Registry.Acquire] makes it live: it takes the session's lease, opens the writer of its frames, and repairs the
// state after the holder before. A session unused for a while is unloaded and its lease given up; an idle session
// costs only its rows.
//
// The repair after a holder has three steps. The channels of its frames are marked, so that it is refused from then
// on if it still lives. Frames that the store lists and the stream does not have are published. A run that was at
// work ends as interrupted with the steps that are stored, and where the project wants it, a new run goes on from
// there: the change that ends the one says so, and the change that begins the other takes it back, so that the wish
// outlives this process. This happens at start, in a sweep for runs without a holder, and whenever such a session
// is acquired.
//
// Every change of a session goes through [Session.Update] or [Session.Commit], one at a time, so that frames that
// tell of changes go out in the order of the changes.
//
// Goroutines: [Registry.Run] is one, with one more for each session being loaded, dropped or resumed; all end
// before it returns.
package live
