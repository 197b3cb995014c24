package box

import (
	"context"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/egress"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// gate is the gate of a box's network with the goroutine that serves it.
type gate struct {
	*egress.Gate
	stop  context.CancelFunc // nil before it is served
	ended chan struct{}
}

// newGate returns a gate for a box, which is not served yet. busy is not called before the first command has begun.
func (b *Boxes) newGate(spec core.BoxSpec, attempt func(contract.Attempt), busy func() bool) *gate {
	opts := b.opts.Egress
	opts.Attempt, opts.Busy, opts.Later, opts.Log = attempt, busy, b.later.Go, b.opts.Log.With("cage", spec.ID)
	return &gate{Gate: egress.New(spec.View.Net, opts), ended: make(chan struct{})}
}

// serve serves the sockets of the box, which become the gate's, until close.
func (g *gate) serve(box *Box, sockets []int) {
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	go func() {
		defer close(g.ended)
		if err := g.Serve(ctx, sockets); err != nil {
			// A cage whose network nobody guards has none, and would not know why.
			box.boxes.opts.Log.Error("the network of a cage cannot be guarded", "cage", box.id, "error", err)
			box.kill()
		}
	}()
}

// close ends the gate and returns when it holds nothing any more.
func (g *gate) close() {
	if g.stop != nil {
		g.stop()
		<-g.ended
	}
}

// ready waits for the init's answer and returns it with the sockets of its network.
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
