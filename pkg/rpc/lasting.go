package rpc

import (
	"context"
	"sync"
	"time"
)

// Lasting returns a context for a stream that outlives ctx until its own end. When ctx ends, end is called to ask the
// other side to finish. The context ends if end fails, or when patience has passed since ctx ended. stop ends the
// context and returns when its goroutine has ended; the caller must call it.
func Lasting(
	ctx context.Context,
	patience time.Duration,
	end func(context.Context) error,
) (lasting context.Context, stop func()) {
	lasting, cut := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	// Nearly every call ends before ctx. A goroutine that waits for ctx would cost it two switches of goroutines.
	unused := context.AfterFunc(ctx, func() {
		defer close(ended)
		defer cut()
		bounded, cancel := context.WithTimeout(lasting, patience)
		defer cancel()
		if bounded.Err() == nil && end(bounded) == nil {
			<-bounded.Done()
		}
	})
	return lasting, sync.OnceFunc(func() {
		cut()
		if !unused() {
			<-ended
		}
	})
}
