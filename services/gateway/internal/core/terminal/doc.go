// Package terminal has the rules for terminals of background processes on a session's socket: the format of binary
// frames, and the audit records of input.
package terminal
