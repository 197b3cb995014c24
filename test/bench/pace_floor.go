package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	busembedded "kaged.dev/pkg/bus/embedded"
	"kaged.dev/pkg/postgres/embedded"
)

// bareStreams is the part of kaged's work on paced streams that is not kaged's own: a WebSocket for each session, a row
// in Postgres for each of kaged's commits, a request to the model, and a message of JetStream, on disk as kaged's, for
// each piece of the answer. It has no agents, records, numbers or limits.
type bareStreams struct {
	model    string
	postgres *embedded.Server
	pool     *pgxpool.Pool
	bus      *busembedded.Server
	conn     *nats.Conn
	stream   jetstream.JetStream
	upgrader websocket.Upgrader
}

// bareCommits are the commits of a session with one message and one step: the session, its lease, the message with
// its run, the record of the request, and the answer with the end of the run.
var bareCommits = []string{"session", "lease", "message", "request", "end"}

// bareRow is the size in bytes of a row of bareStreams.
const bareRow = 1000

func startBareStreams(ctx context.Context, model, dir string) (s *bareStreams, err error) {
	s = &bareStreams{model: model}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.postgres, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(dir, "postgres")}); err != nil {
		return s, err
	}
	if s.pool, err = pgxpool.New(ctx, s.postgres.OwnerURL()); err != nil {
		return s, err
	}
	if _, err = s.pool.Exec(ctx,
		"create table rows (session text, kind text, body jsonb, primary key (session, kind))"); err != nil {
		return s, err
	}
	if s.bus, err = busembedded.Start(busembedded.Options{StoreDir: filepath.Join(dir, "nats")}); err != nil {
		return s, err
	}
	if s.conn, err = nats.Connect("", nats.InProcessServer(s.bus)); err != nil {
		return s, err
	}
	if s.stream, err = jetstream.New(s.conn); err != nil {
		return s, err
	}
	_, err = s.stream.CreateStream(ctx, jetstream.StreamConfig{
		Name: "BARE", Subjects: []string{"bare.*"}, MaxAge: 10 * time.Minute,
		RePublish: &jetstream.RePublish{Source: "bare.*", Destination: "live.bare.{{wildcard(1)}}"},
	})
	return s, err
}

func (s *bareStreams) close() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.bus != nil {
		s.bus.Stop()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.postgres != nil {
		_ = s.postgres.Stop(context.Background())
	}
}

// ServeHTTP serves the session in the path. The first frame is empty and says that the socket is ready; a frame from
// the client is its message.
func (s *bareStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	socket, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer socket.Close()
	if err := s.serve(r.Context(), socket, strings.TrimPrefix(r.URL.Path, "/")); err != nil {
		_ = socket.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"failed","payload":{"delta":%q}}`, err))
	}
}

func (s *bareStreams) serve(ctx context.Context, socket *websocket.Conn, session string) error {
	if err := s.commit(ctx, session, bareCommits[:2]...); err != nil {
		return err
	}
	frames := make(chan *nats.Msg, relayQueue)
	live, err := s.conn.ChanSubscribe("live.bare."+session, frames)
	if err != nil {
		return err
	}
	defer func() { _ = live.Unsubscribe() }()
	if err := errors.Join(s.conn.Flush(), socket.WriteMessage(websocket.TextMessage, nil)); err != nil {
		return err
	}
	if _, _, err := socket.ReadMessage(); err != nil {
		return err
	}
	if err := s.commit(ctx, session, bareCommits[2:4]...); err != nil {
		return err
	}
	var work errgroup.Group
	work.Go(func() error { return s.ask(ctx, session) })
	for range deltas {
		if err := socket.WriteMessage(websocket.TextMessage, (<-frames).Data); err != nil {
			return err
		}
	}
	return errors.Join(work.Wait(), s.commit(ctx, session, bareCommits[4:]...))
}

// commit stores a row of each kind in a transaction of its own.
func (s *bareStreams) commit(ctx context.Context, session string, kinds ...string) error {
	body := `{"text":"` + strings.Repeat("x", bareRow) + `"}`
	for _, kind := range kinds {
		if _, err := s.pool.Exec(ctx, "insert into rows values ($1, $2, $3)", session, kind, body); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the model and publishes each piece of its answer as a frame.
func (s *bareStreams) ask(ctx context.Context, session string) error {
	resp, err := askModel(ctx, s.model)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	seq := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		var piece struct{ Delta struct{ Text string } }
		if err := json.Unmarshal(data, &piece); err != nil {
			return err
		}
		if piece.Delta.Text == "" {
			continue
		}
		seq++
		frame := fmt.Appendf(nil, `{"channel":"output","seq":%d,"type":"message.delta","payload":{"delta":%q}}`, seq,
			piece.Delta.Text)
		if _, err := s.stream.Publish(ctx, "bare."+session, frame); err != nil {
			return err
		}
	}
	return nil
}

// bareCost is the cost of paced streams in bareStreams.
type bareCost struct {
	cpu    time.Duration
	memory treeMemory
}

// bareStreams streams as measurePace does, without kaged, and returns the cost.
func (w *world) bareStreams(ctx context.Context) (cost bareCost, err error) {
	p, err := startPeer(ctx, "streams", w.model.url, filepath.Join(w.dir, "bare-streams"))
	if err != nil {
		return cost, err
	}
	defer p.end()
	tree := p.cmd.Process.Pid
	before, err := cpuOf(tree)
	if err != nil {
		return cost, err
	}
	sampled, done := context.WithCancel(ctx)
	defer done()
	var sampler errgroup.Group
	sampler.Go(func() (err error) { cost.memory, err = peakMemoryOf(sampled, tree); return err })
	var group errgroup.Group
	for i := range sessions {
		group.Go(func() error { return p.converse(ctx, fmt.Sprintf("session%d", i)) })
	}
	err = group.Wait()
	done()
	if err := errors.Join(err, sampler.Wait()); err != nil {
		return cost, err
	}
	after, err := cpuOf(tree)
	cost.cpu = after - before
	return cost, err
}

// converse sends a message in a session and reads all pieces of the answer.
func (p *barePeer) converse(ctx context.Context, session string) error {
	conn, err := dial(ctx, "ws://"+p.HTTP+"/"+session)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, _, err := conn.ReadMessage(); err != nil {
		return err
	}
	if err := conn.WriteMessage(websocket.TextMessage, []byte("go")); err != nil {
		return err
	}
	for range deltas {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		f, err := deltaFrameOf(data)
		if err == nil && f.Type != "message.delta" {
			err = fmt.Errorf("the bare streams failed: %s", f.Payload.Delta)
		}
		if err != nil {
			return err
		}
	}
	_, _, _ = conn.ReadMessage() // its end, after the last commit
	return nil
}
