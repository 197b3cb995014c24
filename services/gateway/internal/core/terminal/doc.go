// Package terminal has the rules of terminals of background processes on a session's socket: the binary frames, and the
// records of input.
package terminal
