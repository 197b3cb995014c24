// Package bench measures a built kaged from outside, as its users meet it: a process on this machine, the public API, and a
// model that is a program of ours, so that what is measured is kaged. Each figure stands beside a floor measured in the
// same run (the same thing done by hand, without kaged) and beside the best peers', which are quoted.
package bench
