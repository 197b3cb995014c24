// Package core is the pool of debug sessions: it starts adapters, keeps the state of their programs, and turns
// actions into requests.
//
// A [Pool] has at most a few sessions per agent. A session is starting, running, stopped, exited or ended. Each
// change of it comes from the adapter's events, in their order; an action that resumes the program waits for the
// next change. The adapter's texts are cut to bounds before it is kept or answered.
//
// Goroutines: per session one that waits for the end of its adapter, one that reads the output of an adapter that
// listens at a port, and one per end; [Pool.Run] waits for all.
package core
