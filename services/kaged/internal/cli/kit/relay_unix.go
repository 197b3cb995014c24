//go:build unix

package kit

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Sizes yields the size of the terminal at each change, until forget is called.
func Sizes[T any](size func() T) (sizes <-chan T, forget func()) {
	return Relay(func(os.Signal) T { return size() }, syscall.SIGWINCH)
}

// Relay yields the meanings of signals until forget is called, which may be called twice.
func Relay[T any](mean func(os.Signal) T, wanted ...os.Signal) (out <-chan T, forget func()) {
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
