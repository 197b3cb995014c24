package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// The load of sockets: 100 sessions stream side by side, each to the socket that holds it and to nine event streams.
const (
	apiSessions   = 100
	apiReaders    = 10
	apiDeltas     = 60
	apiPace       = 50 * time.Millisecond
	apiSocketRuns = 2
)

// lags gathers times from writing to reading.
type lags struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *lags) add(more []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, more...)
}

// lagsOf adds the lags of a delta, whose words are the moments that they were written at.
func lagsOf(lags []time.Duration, delta string, now time.Time) []time.Duration {
	for stamp := range strings.FieldsSeq(delta) {
		if n, err := strconv.ParseInt(stamp, 10, 64); err == nil {
			lags = append(lags, now.Sub(time.Unix(0, n)))
		}
	}
	return lags
}

// measureSockets measures the way of a delta from the model to each of 1,000 readers on 100 busy sessions, and from a
// publisher through a bare relay to as many, in turns.
func measureSockets(ctx context.Context, w *world, h *apiHost) ([]Figure, error) {
	peer, err := startPeer(ctx, "relay")
	if err != nil {
		return nil, err
	}
	defer peer.end()
	w.model.set(plan{deltas: apiDeltas, interval: apiPace})
	var kaged, bare []time.Duration
	var generator float64
	for i := range apiSocketRuns {
		begun, err := h.beginShare()
		if err != nil {
			return nil, err
		}
		got, err := h.crowd(ctx)
		if err != nil {
			return nil, err
		}
		part, err := begun.end()
		if err != nil {
			return nil, err
		}
		generator += part / apiSocketRuns
		kaged = append(kaged, got...)
		if got, err = peer.crowd(ctx, fmt.Sprintf("run%d", i)); err != nil {
			return nil, fmt.Errorf("the bare relay: %w", err)
		}
		bare = append(bare, got...)
	}
	if want := apiSocketRuns * apiSessions * apiReaders * apiDeltas; len(kaged) != want || len(bare) != want {
		return nil, fmt.Errorf("%d deltas came through kaged, %d through the relay, of %d", len(kaged), len(bare), want)
	}
	const title = "gorilla + NATS relay"
	return []Figure{
		{
			Name: "api/sockets/delivery-p99", Value: ms(percentile(kaged, 99)), Unit: "ms", Spread: spread(kaged),
			Peer: title, Rival: ms(percentile(bare, 99)), Target: 2,
		},
		{
			Name: "api/sockets/delivery-median", Value: ms(percentile(kaged, 50)), Unit: "ms",
			Peer: title, Rival: ms(percentile(bare, 50)),
		},
		{
			Name: "api/sockets/generator-share", Unit: "of CPU time", Value: generator,
			Note: "the model and the readers, beside kaged and its processes",
		},
	}, nil
}

// crowd runs a message in each of the sessions and returns the lags of all readers.
func (h *apiHost) crowd(ctx context.Context) ([]time.Duration, error) {
	ids, sockets, err := h.open(ctx, apiSessions)
	defer closeAll(sockets)
	if err != nil {
		return nil, err
	}
	streams, leave := context.WithCancel(ctx)
	defer leave()
	var seen lags
	var readers errgroup.Group
	ready := make(chan error, apiSessions*apiReaders)
	for _, id := range ids {
		for range apiReaders - 1 {
			readers.Go(func() error { return h.events(streams, id, ready, &seen) })
		}
	}
	for range apiSessions * (apiReaders - 1) {
		if err := <-ready; err != nil {
			return nil, err
		}
	}
	group, gctx := errgroup.WithContext(ctx)
	for i := range sockets {
		group.Go(func() error {
			if err := h.post(gctx, ids[i], "go"); err != nil {
				return err
			}
			got, err := read(sockets[i], time.Now())
			seen.add(got.lag)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return seen.all, readers.Wait()
}

// streaming has a connection for each reader.
var streaming = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0, DisableCompression: true}}

// events reads an event stream until the session's message ends.
func (h *apiHost) events(ctx context.Context, session string, ready chan<- error, seen *lags) error {
	req, err := h.get(ctx, "/api/v1/sessions/"+session+"/stream?channels=output")
	if err != nil {
		ready <- err
		return err
	}
	resp, err := streaming.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("a stream was answered with %s", resp.Status)
	}
	ready <- err
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var got []time.Duration
	defer func() { seen.add(got) }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 4<<10), 1<<20)
	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		now := time.Now()
		f, err := deltaFrameOf(data)
		if err != nil {
			return err
		}
		got = lagsOf(got, f.Payload.Delta, now)
		if f.Type == "message.end" {
			return nil
		}
	}
	return fmt.Errorf("a stream ended before its message: %w", lines.Err())
}

// deltaFrame is the part of a frame that readers need.
type deltaFrame struct {
	Type    string
	Payload struct{ Delta string }
}

func deltaFrameOf(data []byte) (f deltaFrame, err error) {
	err = json.Unmarshal(data, &f)
	return f, err
}

// crowd publishes deltas to subjects of a run and returns the lags of all readers.
func (p *barePeer) crowd(ctx context.Context, run string) ([]time.Duration, error) {
	var seen lags
	readers, rctx := errgroup.WithContext(ctx)
	ready := make(chan error, apiSessions*apiReaders)
	for i := range apiSessions * apiReaders {
		readers.Go(func() error {
			got, err := p.follow(rctx, fmt.Sprintf("%s.%d", run, i%apiSessions), ready)
			seen.add(got)
			return err
		})
	}
	for range apiSessions * apiReaders {
		if err := <-ready; err != nil {
			return nil, err
		}
	}
	publisher, err := nats.Connect(p.NATS)
	if err != nil {
		return nil, err
	}
	defer publisher.Close()
	for i := range apiSessions {
		readers.Go(func() error {
			return publishDeltas(publisher, fmt.Sprintf("%s.%d", run, i), apiDeltas, apiPace)
		})
	}
	err = readers.Wait()
	return seen.all, err
}

// publishDeltas publishes a number of deltas to a subject at a pace, each with the time of its write.
func publishDeltas(publisher *nats.Conn, subject string, n int, pace time.Duration) error {
	next := time.Now()
	for range n {
		frame := fmt.Appendf(nil, `{"channel":"output","seq":1,"type":"message.delta","payload":`+
			`{"message_id":"01K0000000000000000000000A","delta":"%d ","kind":"text"}}`, time.Now().UnixNano())
		if err := publisher.Publish(subject, frame); err != nil {
			return err
		}
		next = next.Add(pace)
		time.Sleep(time.Until(next))
	}
	return nil
}

// follow reads the deltas of a subject at a socket of its own.
func (p *barePeer) follow(ctx context.Context, subject string, ready chan<- error) ([]time.Duration, error) {
	return p.followN(ctx, subject, apiDeltas, ready)
}

// followN is follow for n deltas.
func (p *barePeer) followN(
	ctx context.Context, subject string, n int, ready chan<- error,
) (got []time.Duration, err error) {
	conn, err := dial(ctx, "ws://"+p.HTTP+"/"+subject)
	if err == nil {
		_, _, err = conn.ReadMessage()
	}
	ready <- err
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for range n {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return got, err
		}
		now := time.Now()
		f, err := deltaFrameOf(data)
		if err != nil {
			return got, err
		}
		got = lagsOf(got, f.Payload.Delta, now)
	}
	return got, nil
}
