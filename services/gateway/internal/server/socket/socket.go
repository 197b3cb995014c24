package socket

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/gateway/internal/core/channel"
)

// The lanes of a socket's queue: control, and one for each channel of a session. Lanes from lanes on belong to
// terminals.
const (
	laneControl = 0
	laneOutput  = 1 + int(frametype.Output)
	laneEvents  = 1 + int(frametype.Events)
	lanes       = 1 + int(frametype.Channels)
)

// names has the channel name of each lane.
var names = func() (names [lanes]string) {
	names[laneControl] = "control"
	for c := range frametype.Channels {
		names[1+int(c)] = c.String()
	}
	return names
}()

// laneOf returns the lane of a session's channel, and laneControl for other names.
func laneOf(name string) int {
	if c, ok := frametype.ParseChannel(name); ok {
		return 1 + int(c)
	}
	return laneControl
}

func (l Limits) lane(lane int) int {
	switch {
	case lane == laneControl:
		return l.Control // bounds answers to a client that sends and does not read
	case lane == laneOutput:
		return l.Output
	case lane >= lanes:
		return l.Pty
	}
	return l.Events
}

type phase int

const (
	greeting phase = iota // waiting for hello
	open                  // frames go both ways
	closing               // the closing frame is queued or being written; no other frame is handled
	gone                  // the client has left
)

// Socket is one client of a session. [Hub.Upgrade] creates it; it removes itself from the hub when it ends.
type Socket struct {
	hub     *Hub
	session string
	caller  ident.Caller
	window  bool            // shows terminals only and does not hold the session
	ctx     context.Context // carries the caller; its end releases the session
	cancel  context.CancelFunc
	conn    *websocket.Conn // set by start; only read reads from it; only write writes to it, but for pongs
	frames  *rate.Limiter   // limits the client's frames
	replay  *rate.Limiter   // limits stored bytes
	wake    chan struct{}   // receives a value when write has work
	left    chan struct{}   // closed when read has returned
	born    time.Time
	pinged  time.Time    // the time of the last regular ping; used by [Hub.Run] alone
	forget  func()       // ends the watch of the caller's sign-in; set before the upgrade
	ignore  func()       // ends the delivery of live batches; set before the upgrade
	workers atomic.Int32 // number of goroutines; the last one removes the socket from the hub

	mu      sync.Mutex // guards the fields below
	phase   phase
	force   *time.Timer // closes the connection if the client does not take the closing frame
	seq     int64       // number of the last control frame
	pinging bool        // a ping is due
	warned  bool        // the warnings were sent
	lanes   [lanes]lane
	queue   channel.Queue
	screens []*screen      // by lane - lanes; a nil entry is free
	shown   bool           // a terminal was subscribed to at least once
	final   *apiv1.Closing // the closing frame; set from phase closing on
}

// lane is the client's position in a channel. The lane of control is unused.
type lane struct {
	splice  channel.Splice
	begin   bool          // hello asked for the channel from its first frame
	filling bool          // fill is running
	room    chan struct{} // receives a value for fill when a frame of the lane was sent or dropped
}

func newSocket(h *Hub, session string, caller ident.Caller) *Socket {
	s := &Socket{
		hub: h, session: session, caller: caller, born: time.Now(),
		frames: limiter(h.deps.Limits.Frames, h.deps.Limits.FrameBurst),
		replay: limiter(h.deps.Limits.Replay, h.deps.Limits.ReplayBurst),
		wake:   make(chan struct{}, 1), left: make(chan struct{}), ignore: func() {},
	}
	// A random first interval spreads the pings of sockets that were opened together.
	s.pinged = s.born.Add(-rand.N(max(h.pingEach(), 1)))
	s.ctx, s.cancel = context.WithCancel(ident.WithCaller(context.Background(), caller))
	return s
}

// limiter returns a limiter of a rate per second, 0 for no limit.
func limiter(each, burst int) *rate.Limiter {
	if each == 0 {
		return rate.NewLimiter(rate.Inf, burst)
	}
	return rate.NewLimiter(rate.Limit(each), burst)
}

// start starts the goroutines of a socket on an upgraded connection.
func (s *Socket) start(conn *websocket.Conn, hold channel.Hold) {
	s.mu.Lock()
	s.conn = conn
	if s.phase == closing {
		s.forceLater()
	}
	s.mu.Unlock()
	s.workers.Add(3)
	go s.worker(s.read)
	go s.worker(s.write)
	go s.worker(func() {
		if !s.window {
			s.keep(hold)
		}
	})
}

// worker runs f. The caller has counted it in workers. The last worker removes the socket from the hub; at that
// time the phase allows no new workers.
func (s *Socket) worker(f func()) {
	s.guard(f)
	if s.workers.Add(-1) > 0 {
		return
	}
	s.mu.Lock()
	if s.force != nil {
		s.force.Stop()
	}
	s.mu.Unlock()
	s.hub.remove(s)
}

// guard runs f. A panic closes this socket and not the process.
func (s *Socket) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.hub.deps.Log.Error("a socket panicked", "session_id", s.session, "request_id", s.caller.RequestID, "panic", p,
				"stack", string(debug.Stack()))
			_ = s.conn.Close() // read fails, and ends the other goroutines
			s.cancel()
		}
	}()
	f()
}

// live handles a live batch.
func (s *Socket) live(lane int, b channel.Batch) {
	if s.window {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, verdict := s.lanes[lane].splice.Live(b)
	s.obey(lane, out, verdict)
}

// missed is called when live batches may have been missed.
func (s *Socket) missed(storeLost bool) {
	if s.window {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane := laneControl + 1; lane < lanes; lane++ {
		verdict := s.lanes[lane].splice.Suspect()
		if storeLost && s.lanes[lane].splice.On() {
			verdict = channel.Lost
		}
		s.obey(lane, channel.Batch{}, verdict)
	}
}

// published passes the holder's channel numbers to the splices.
func (s *Socket) published(hold channel.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane := laneControl + 1; lane < lanes; lane++ {
		s.obey(lane, channel.Batch{}, s.lanes[lane].splice.Published(hold.ServerSeq()[names[lane]]))
	}
}

// obey carries out a verdict. mu is held.
func (s *Socket) obey(lane int, b channel.Batch, verdict channel.Verdict) {
	if s.phase >= closing {
		return
	}
	switch verdict {
	case channel.Deliver:
		s.push(lane, b.Data)
	case channel.Fill:
		l := &s.lanes[lane]
		if l.filling {
			return
		}
		if l.filling = true; l.room == nil {
			l.room = make(chan struct{}, 1)
		}
		s.workers.Add(1)
		go s.worker(func() { s.fill(lane) })
	case channel.Lost:
		s.closeLocked(codeResumeFailed, "The next frames have expired; read the session again.")
	}
}

// push queues frames for the client. If the lane is full, it closes the socket. mu is held.
func (s *Socket) push(lane int, data []byte) {
	if !s.queue.Push(lane, data, s.hub.deps.Limits.lane(lane)) {
		s.closeLocked(codeBackpressure, "The client reads the "+names[lane]+" channel too slowly; connect again and resume.")
		return
	}
	s.signal()
}

// control queues a frame on control. mu is held.
func (s *Socket) control(frameType string, payload proto.Message) {
	s.seq++
	frame, err := wirejson.AppendFrame(nil, names[laneControl], s.seq, frameType, payload)
	if err != nil {
		s.hub.deps.Log.Error("control frame cannot be written", "type", frameType, "request_id", s.caller.RequestID, "error",
			err)
		return
	}
	s.push(laneControl, frame)
}

// signal wakes write.
func (s *Socket) signal() { wake(s.wake) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ping makes write send a ping.
func (s *Socket) ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase < closing {
		s.pinging = true
		s.signal()
	}
}

// toError returns err as the payload of a control frame of type error.
func toError(err error) proto.Message {
	p := fault.From(err).Proto()
	p.HttpStatus = 0
	return p
}
