package cage

import (
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"kaged.dev/services/kaged/internal/workbench"
)

// passed are the signals that a command gets which this process gets.
var passed = map[os.Signal]string{
	syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
	syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2",
}

// passSignals yields the names of the signals that this process gets, until forget.
func passSignals() (names <-chan string, forget func()) {
	wanted := slices.Collect(maps.Keys(passed))
	return relay(func(s os.Signal) string { return passed[s] }, wanted...)
}

// passSizes yields the size of the terminal whenever it changes, until forget.
func passSizes(size func() workbench.Size) (sizes <-chan workbench.Size, forget func()) {
	return relay(func(os.Signal) workbench.Size { return size() }, syscall.SIGWINCH)
}

// relay yields the meanings of signals, as long as they are taken, until forget, which may be called twice.
func relay[T any](mean func(os.Signal) T, wanted ...os.Signal) (out <-chan T, forget func()) {
	got, yield, over := make(chan os.Signal, 8), make(chan T), make(chan struct{})
	signal.Notify(got, wanted...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-got:
				select {
				case yield <- mean(s):
				case <-over:
					return
				}
			case <-over:
				return
			}
		}
	}()
	return yield, sync.OnceFunc(func() {
		signal.Stop(got)
		close(over)
		<-done
	})
}
