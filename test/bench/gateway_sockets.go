package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// The sockets of one gateway: most are idle, and the rest each show a run that streams. Their pace is slow enough for a
// machine of two processors, and their deltas are spread over the interval of a pace.
const (
	gatewayIdle   = 10_000
	gatewayBusy   = 500
	gatewayDeltas = 40
	gatewayPace   = 500 * time.Millisecond
)

// measureGatewaySockets measures the memory of an idle socket at one gateway, and the way of a delta to each of the
// busy sockets beside the idle ones; and from a publisher through a bare relay to as many beside as many.
func measureGatewaySockets(ctx context.Context, w *world) ([]Figure, error) {
	d, err := w.deploy(ctx, 1, fmt.Sprintf("KAGED_SERVICES_GATEWAY_SOCKETS=%d", gatewayIdle+gatewayBusy+1000))
	if err != nil {
		return nil, err
	}
	defer d.end()
	_, warm, err := d.open(ctx, 50)
	defer closeAll(warm)
	if err != nil {
		return nil, err
	}
	before := [2]int64{}
	for i, service := range []string{"gateway", "session-manager"} {
		if before[i], err = d.rss(service); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(w.progress, "bench: gateway-sockets: opening %d sockets\n", gatewayIdle)
	_, idle, err := d.open(ctx, gatewayIdle)
	defer closeAll(idle)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for i, service := range []string{"gateway", "session-manager"} {
		after, err := d.rss(service)
		if err != nil {
			return nil, err
		}
		figures = append(figures, Figure{
			Name:  "gateway-sockets/" + service + "-memory-per-socket",
			Value: float64(after-before[i]) / gatewayIdle / 1e3, Unit: "KB",
		})
	}
	busy, err := w.busySockets(ctx, d)
	if err != nil {
		return figures, err
	}
	kaged := busy.lag
	closeAll(append(idle, warm...)) // the relay's sockets need their file descriptors
	d.end()
	bare, err := w.bareSockets(ctx)
	if err != nil {
		return figures, err
	}
	const title = "gorilla + NATS relay"
	return append(figures,
		Figure{
			Name: "gateway-sockets/runs-begin", Value: ms(busy.begin), Unit: "ms",
			Note: "from the post of 500 messages at once to the last request at the model",
		},
		Figure{
			Name: "gateway-sockets/delivery-p99", Value: ms(percentile(kaged, 99)), Unit: "ms", Spread: spread(kaged),
			Peer: title, Rival: ms(percentile(bare, 99)),
		},
		Figure{
			Name: "gateway-sockets/delivery-median", Value: ms(percentile(kaged, 50)), Unit: "ms",
			Peer: title, Rival: ms(percentile(bare, 50)),
		},
		Figure{
			Name: "gateway-sockets/busy-cpu", Value: busy.cores, Unit: "cores",
			Note: "all of kaged, Postgres and NATS, while the runs stream",
		},
	), nil
}

// busyStreams are the lags of the deltas of all busy sockets, the time in which their runs began, and the processors
// that kaged and its stores used while they streamed.
type busyStreams struct {
	lag   []time.Duration
	begin time.Duration
	cores float64
}

// busySockets streams on all busy sockets. The answers begin once all runs have begun, one after another within the
// interval of a pace.
func (w *world) busySockets(ctx context.Context, d *deployment) (b busyStreams, err error) {
	hold := make(chan struct{})
	w.model.set(plan{deltas: gatewayDeltas, interval: gatewayPace, hold: hold})
	free := sync.OnceFunc(func() { close(hold) }) // lets the model end after an error
	defer free()
	var results []result
	work, wctx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		results, _, err = d.stream(wctx, gatewayBusy)
		return err
	})
	var arrived []time.Time
	for arrived, _ = w.model.times(); len(arrived) < gatewayBusy; arrived, _ = w.model.times() {
		if wctx.Err() != nil {
			free()
			return b, work.Wait()
		}
		time.Sleep(10 * time.Millisecond)
	}
	spent, err := d.used()
	if err != nil {
		return b, err
	}
	streaming := time.Now()
	for range gatewayBusy {
		select {
		case hold <- struct{}{}:
		case <-wctx.Done():
		}
		time.Sleep(gatewayPace / gatewayBusy)
	}
	if err := work.Wait(); err != nil {
		return b, err
	}
	now, err := d.used()
	if err != nil {
		return b, err
	}
	used := now.since(spent)
	b.cores = (used.services + used.stores).Seconds() / time.Since(streaming).Seconds()
	b.begin = slices.MaxFunc(arrived, time.Time.Compare).Sub(results[0].begun)
	for _, r := range results {
		b.lag = append(b.lag, r.lag...)
	}
	if want := gatewayBusy * gatewayDeltas; len(b.lag) != want {
		return b, fmt.Errorf("%d deltas arrived, want %d", len(b.lag), want)
	}
	return b, nil
}

// bareSockets opens as many sockets at a bare relay, and returns the lags of the busy ones.
func (w *world) bareSockets(ctx context.Context) ([]time.Duration, error) {
	p, err := startPeer(ctx, "relay")
	if err != nil {
		return nil, err
	}
	defer p.end()
	idle := make([]*websocket.Conn, gatewayIdle)
	defer func() {
		for _, c := range idle {
			if c != nil {
				c.Close()
			}
		}
	}()
	opening, octx := errgroup.WithContext(ctx)
	opening.SetLimit(parallelSetup)
	for i := range idle {
		opening.Go(func() (err error) {
			if idle[i], err = dial(octx, fmt.Sprintf("ws://%s/idle.%d", p.HTTP, i)); err == nil {
				_, _, err = idle[i].ReadMessage()
			}
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return nil, err
	}
	publisher, err := nats.Connect(p.NATS)
	if err != nil {
		return nil, err
	}
	defer publisher.Close()
	var seen lags
	ready := make(chan error, gatewayBusy)
	busy, bctx := errgroup.WithContext(ctx)
	for i := range gatewayBusy {
		busy.Go(func() error {
			got, err := p.followN(bctx, fmt.Sprintf("busy.%d", i), gatewayDeltas, ready)
			seen.add(got)
			return err
		})
	}
	for range gatewayBusy {
		if err := <-ready; err != nil {
			return nil, err
		}
	}
	for i := range gatewayBusy {
		busy.Go(func() error {
			time.Sleep(time.Duration(i) * gatewayPace / gatewayBusy)
			return publishDeltas(publisher, fmt.Sprintf("busy.%d", i), gatewayDeltas, gatewayPace)
		})
	}
	err = busy.Wait()
	return seen.all, err
}
