package cage

import (
	"maps"
	"os"
	"slices"
	"syscall"

	"kaged.dev/services/kaged/internal/cli/kit"
)

// passed are the signals that a command gets which this process gets.
var passed = map[os.Signal]string{
	syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
	syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2",
}

// passSignals yields the names of the signals that this process gets, until forget.
func passSignals() (names <-chan string, forget func()) {
	wanted := slices.Collect(maps.Keys(passed))
	return kit.Relay(func(s os.Signal) string { return passed[s] }, wanted...)
}
