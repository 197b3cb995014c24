package host

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interrupts returns a context that the first SIGINT or SIGTERM ends, and a channel that the second closes to cut off
// running work. stop restores the default handling of the signals and ends the context.
func Interrupts(parent context.Context) (ctx context.Context, hurry <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	hurried, stopped, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for _, act := range []func(){cancel, func() { close(hurried) }} {
			select {
			case <-signals:
				act()
			case <-stopped:
				return
			}
		}
	}()
	return ctx, hurried, func() {
		signal.Stop(signals)
		close(stopped)
		<-done
		cancel()
	}
}
