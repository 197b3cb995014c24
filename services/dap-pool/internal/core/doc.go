// Package core is the pool of debug sessions: it starts adapters, tracks the state of their programs, and turns actions
// into requests.
//
// A [Pool] has at most a few sessions per agent. A session is starting, running, stopped, exited or ended. Its state
// changes only by the adapter's events, in their order; an action that continues the program waits for the next change.
// The adapter's texts are cut to limits before they are stored or returned.
//
// Goroutines: per session one that waits for the end of its adapter, one that reads the output of an adapter that
// listens at a port, and one that ends the session; [Pool.Run] waits for all.
package core
