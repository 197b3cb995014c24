// Package harness is the service that runs agents. It stores nothing: between calls it keeps only caches and
// corrections of estimates.
//
// Run (internal/core/loop) runs one agent. Its input is the snapshot, the routes of the models, and the conversation.
// It sends each request to the model through the processors, which record it. It relays the model's output, runs the
// requested tools at the tool runner, and continues with their results until the model is done, a limit is reached,
// an error occurs, or the caller ends the run. Before an action that cannot be undone, the caller has confirmed that
// the action's cause is stored.
//
// Models are called through drivers, one folder each in internal/adapter; drivers.go lists them.
//
// Goroutines: each run works in the goroutine of its RPC, with one more that reads the caller's stream, and those of
// package loop. All belong to a run and end with it; Run of the service returns after the last.
package harness
