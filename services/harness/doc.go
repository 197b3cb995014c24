// Package harness is the service that runs agents. It has no state between calls.
//
// Run (internal/core/loop) runs one agent: it takes the snapshot, the routes of its models, and the conversation;
// it sends each request through the processors, which record it, to the model; it relays the model's output, runs
// the requested tools at the tool runner, and goes on with their results until the model is done, a limit is
// reached, an error ends it, or the caller does. Before an action that cannot be undone, the caller has confirmed
// that its cause is stored.
//
// Models are reached through drivers, one folder each in internal/adapter; drivers.go lists them.
//
// Goroutines: each run works in the goroutine of its RPC, with one more that reads the caller's stream and one per
// parallel tool. All belong to a run and end with it; Run of the service returns after the last.
package harness
