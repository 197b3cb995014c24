// Package harness is the service that runs agents. It keeps nothing between calls.
//
// Run (internal/core/loop) runs one agent: it takes the snapshot, the routes of its models, and the conversation; it sends
// each request through the processors, which record it, to the model; it relays what the model writes, runs the tools it
// asks for at the tool runner, and goes on with their results until the model is done, a limit is reached, something fails,
// or the caller ends it. Before anything is done that cannot be undone, the caller has said that what led to it is stored.
//
// Models are reached through drivers, one folder each in internal/adapter; drivers.go lists them.
//
// Goroutines: each run works in the goroutine of its RPC, with one more that reads the caller's stream and one per parallel
// tool. All belong to a run and end with it; Run of the service returns when none is left.
package harness
