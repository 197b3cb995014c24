// Package bench measures a built kaged from outside, as its users meet it: a process on this machine, the public
// API, and a scripted model, so that only kaged is measured. Each figure stands beside a floor measured in the same
// run (the same thing done by hand, without kaged) and beside the best peers', which are quoted.
package bench
