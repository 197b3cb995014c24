package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"kaged.dev/pkg/fault"
)

// Names on the server.
const (
	streamName    = "WS"
	subjectPrefix = "ws."
	livePrefix    = "live." // prefix of the whole subject
	allSubjects   = subjectPrefix + "*.*"
)

// Defaults of [FramesConfig].
const (
	DefaultRetention = 10 * time.Minute
	DefaultMaxBytes  = 256 << 20
)

// maxDuplicates is the longest duplicate window; each remembered id costs the server some hundred bytes.
const maxDuplicates = 10 * time.Minute

// FramesConfig shapes the stream. The stream's one owner sets it; see [OpenFrames].
type FramesConfig struct {
	// Retention is the time for which frames can be replayed; 0 means DefaultRetention. MsgIDs are remembered as long, at
	// most ten minutes.
	Retention time.Duration
	// MaxBytes limits the stream; the oldest messages are dropped first. 0 means DefaultMaxBytes.
	MaxBytes int64
	// Replicas is the number of servers with a copy; 0 means 1.
	Replicas int
	// Storage is on disk by default. It cannot be changed later.
	Storage jetstream.StorageType
}

// Frames is the stream of all sessions' frames. Its methods may be called from any goroutine.
type Frames struct {
	conn *Conn
	// cfg is the configuration of an owned stream, nil for readers.
	cfg *jetstream.StreamConfig
	// pendingMessages is the limit of messages that wait for a live handler.
	pendingMessages int

	mu sync.Mutex // held while the stream is created
}

// OpenFrames creates the stream, or changes an existing one to cfg. One service owns the stream and all its processes
// use the same cfg; other services read it with [ReadFrames]. It returns fault.Unavailable if NATS does not answer or
// has no JetStream.
func OpenFrames(ctx context.Context, conn *Conn, cfg FramesConfig) (*Frames, error) {
	if cfg.Retention <= 0 {
		cfg.Retention = DefaultRetention
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	f := &Frames{conn: conn, pendingMessages: defaultPendingMessages, cfg: &jetstream.StreamConfig{
		Name: streamName, Description: "Frames of sessions for their sockets", Subjects: []string{allSubjects},
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, MaxAge: cfg.Retention, MaxBytes: cfg.MaxBytes,
		Replicas: max(cfg.Replicas, 1), Storage: cfg.Storage, Duplicates: min(cfg.Retention, maxDuplicates),
		AllowDirect: true,
		RePublish: &jetstream.RePublish{
			Source: allSubjects, Destination: livePrefix + subjectPrefix + "{{wildcard(1)}}.{{wildcard(2)}}",
		},
	}}
	return f, f.ensure(ctx)
}

// ReadFrames returns the stream for a reader. It sends no request and never creates or changes the stream. While the
// stream is missing, reads fail with fault.Unavailable.
func ReadFrames(conn *Conn) *Frames {
	return &Frames{conn: conn, pendingMessages: defaultPendingMessages}
}

// ensure creates a missing stream and updates one with another configuration.
func (f *Frames) ensure(ctx context.Context) error {
	if f.cfg == nil {
		return notThere(nil)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	guarded, cancel := f.conn.guard(ctx)
	defer cancel()
	_, err := f.conn.js.CreateOrUpdateStream(guarded, *f.cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		_, err = f.conn.js.UpdateStream(guarded, *f.cfg)
	}
	return classify(ctx, err, "NATS cannot provide the stream of frames.")
}

func notThere(err error) *fault.Error {
	return unavailable(err, "The stream of frames does not exist yet.")
}

// Incarnation returns the id of this stream. A stream that was lost and created again has a new id, and earlier
// sequence numbers are invalid in it. It fails with fault.Unavailable while the stream is missing.
func (f *Frames) Incarnation(ctx context.Context) (string, error) {
	guarded, cancel := f.conn.guard(ctx)
	defer cancel()
	s, err := f.conn.js.Stream(guarded, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", notThere(err)
	}
	if err != nil {
		return "", classify(ctx, err, "NATS does not answer.")
	}
	return strconv.FormatInt(s.CachedInfo().Created.UnixNano(), 36), nil
}
