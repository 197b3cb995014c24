package box

import (
	"context"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/egress"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// gate is the network gate of a cage, with the goroutine of serve.
type gate struct {
	*egress.Gate
	stop  context.CancelFunc // nil before serve
	ended chan struct{}
}

// newGate returns a gate for a cage; serve starts it. busy is called only after the first command has begun.
func (b *Boxes) newGate(spec core.BoxSpec, attempt func(contract.Attempt), busy func() bool) *gate {
	opts := b.opts.Egress
	opts.Attempt, opts.Busy, opts.Background, opts.Log = attempt, busy, b.later.Go, b.opts.Log.With("cage", spec.ID)
	return &gate{Gate: egress.New(spec.View.Net, opts), ended: make(chan struct{})}
}

// serve starts serving the cage's sockets, which belong to the gate from here on. The goroutine ends at close.
func (g *gate) serve(box *Box, sockets []int) {
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	go func() {
		defer close(g.ended)
		if err := g.Serve(ctx, sockets); err != nil {
			// Without its gate the cage has no network, and its programs could not tell why.
			box.boxes.opts.Log.Error("network gate failed; ending the cage", "cage", box.id, "error", err)
			box.kill()
		}
	}()
}

// close ends the gate and waits until its sockets and connections are closed.
func (g *gate) close() {
	if g.stop != nil {
		g.stop()
		<-g.ended
	}
}

// ready waits for the init's answer and returns it with the sockets of the cage's network.
func (box *Box) ready() (answer frame.Frame, sockets []int, err error) {
	for {
		f, fds, err := box.conn.Receive()
		sockets = append(sockets, fds...)
		if err == nil && f.Op == frame.OpFiles {
			continue
		}
		if err != nil || f.Op != frame.OpReady {
			for _, fd := range sockets {
				unix.Close(fd)
			}
			sockets = nil
		}
		return f, sockets, err
	}
}
