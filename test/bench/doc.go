// Package bench measures a built kaged from outside, as its users see it: a process on this machine, the public API,
// and a scripted model, so that only kaged is measured. Each figure is compared with a floor measured in the same run
// (the same task without kaged) and with published figures of the best peers.
package bench
