package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The replay: a client that has seen the first frames comes back for 10,000 more.
const (
	replayFrames = 10_000
	replayTries  = 10
	replayRuns   = 4
	// replayPace is longer than kaged puts deltas together for, so that each is a frame.
	replayPace = 6 * time.Millisecond
)

// measureReplay measures the time from the dial of a socket to the last of 10,000 stored frames. The floor is a bare
// socket that writes as many frames of the same size.
func measureReplay(ctx context.Context, w *world, h *apiHost) ([]Figure, error) {
	session, last, size, err := h.longChannel(ctx, w)
	if err != nil {
		return nil, err
	}
	peer, err := startPeer(ctx, "replay", strconv.Itoa(replayFrames), strconv.Itoa(size))
	if err != nil {
		return nil, err
	}
	defer peer.end()
	var took, floor []time.Duration
	begun, err := h.beginShare()
	if err != nil {
		return nil, err
	}
	for range replayTries {
		t, err := h.replay(ctx, session, last)
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	share, err := begun.end()
	if err != nil {
		return nil, err
	}
	for range replayTries {
		t, err := peer.read(ctx)
		if err != nil {
			return nil, err
		}
		floor = append(floor, t)
	}
	return []Figure{{
		Name: "api/replay", Value: ms(percentile(took, 50)), Unit: "ms", Floor: ms(percentile(floor, 50)),
		Spread: spread(took), Target: 200,
		Note: fmt.Sprintf("%d frames of %d bytes; the reader used %.0f %% of the CPU time", replayFrames, size,
			100*share),
	}}, nil
}

// longChannel returns a session whose channel output has more than 10,000 frames, the number of the last one, and the
// size of one.
func (h *apiHost) longChannel(ctx context.Context, w *world) (session string, last int64, size int, err error) {
	w.model.set(plan{deltas: replayFrames/replayRuns + 1, interval: replayPace})
	if session, err = h.session(ctx); err != nil {
		return "", 0, 0, err
	}
	socket, err := h.client.Attach(ctx, session, map[string]int64{}, false)
	if err != nil {
		return "", 0, 0, err
	}
	defer socket.Close()
	for last <= replayFrames {
		if err := h.post(ctx, session, "go"); err != nil {
			return "", 0, 0, err
		}
		for written, idle := false, false; !written || !idle; {
			f, err := socket.Read()
			if err != nil {
				return "", 0, 0, err
			}
			if f.Channel == "output" {
				last = f.Seq
			}
			switch f.Type {
			case "message.delta":
				size = len(f.Raw)
			case "message.end":
				written = true
			case "session.state":
				idle = strings.Contains(string(f.Payload), `"idle"`)
			}
		}
	}
	return session, last, size, nil
}

// replay resumes 10,000 frames before the last one and returns the time to read them.
func (h *apiHost) replay(ctx context.Context, session string, last int64) (time.Duration, error) {
	begun := time.Now()
	from := last - replayFrames
	socket, err := h.client.Attach(ctx, session, map[string]int64{"output": from}, false)
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	for next := from + 1; next <= last; {
		f, err := socket.Read()
		if err != nil {
			return 0, err
		}
		if f.Channel != "output" {
			continue
		}
		if f.Seq != next {
			return 0, fmt.Errorf("frame %d came in place of %d", f.Seq, next)
		}
		next++
	}
	return time.Since(begun), nil
}

// read reads the frames of a bare socket.
func (p *barePeer) read(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	conn, err := dial(ctx, "ws://"+p.HTTP)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for range replayFrames {
		if _, _, err := conn.ReadMessage(); err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}
