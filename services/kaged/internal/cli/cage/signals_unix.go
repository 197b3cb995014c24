package cage

import (
	"maps"
	"os"
	"slices"
	"syscall"

	"kaged.dev/services/kaged/internal/cli/kit"
)

// passed are the signals that this process passes to the command.
var passed = map[os.Signal]string{
	syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
	syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2",
}

// passSignals yields the names of the signals that this process receives, until forget is called.
func passSignals() (names <-chan string, forget func()) {
	wanted := slices.Collect(maps.Keys(passed))
	return kit.Relay(func(s os.Signal) string { return passed[s] }, wanted...)
}
