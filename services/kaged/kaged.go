// Package kaged is the kaged command. This package has the list of its services; internal/daemon runs them, and
// internal/cli has the command line.
package kaged

import "kaged.dev/services/kaged/internal/cli"

//go:generate go run ./internal/gen

// Main runs the command line of the process and returns its exit code.
func Main() int { return cli.Main(Modules()) }
