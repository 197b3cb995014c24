package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	busembedded "kaged.dev/pkg/bus/embedded"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// barePeer is a process with a bare server in it, see [ServePeer].
type barePeer struct {
	cmd  *exec.Cmd
	stop io.Closer
	// HTTP and NATS are its addresses.
	HTTP, NATS string
}

// startPeer starts this program again as a peer.
func startPeer(ctx context.Context, name string, args ...string) (*barePeer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &barePeer{cmd: exec.CommandContext(ctx, self, append([]string{"peer", name}, args...)...)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stop, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, p)
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("the bare %s does not start: %w", name, err)
	}
	return p, nil
}

func (p *barePeer) end() {
	_ = p.stop.Close()
	_ = p.cmd.Wait()
}

// ServePeer runs a bare server until in ends, and writes its addresses to out as one line of JSON; "language" is a
// language server instead, see [serveQuick]. "relay" is a NATS
// server with a relay to WebSockets, "nats" a NATS server as kaged's
// own, with its streams in the folder args[0]; "gateway" a gRPC service behind a grpc-gateway; args[0] is its answer, a
// GetSessionResponse in JSON. "replay" writes frames to each socket: args are their number and size. "streams" relays
// the answers of the model at args[0] and stores in the folder args[1], see [bareStreams]. "poster" posts bodies to the
// model at args[0].
func ServePeer(ctx context.Context, in io.Reader, out io.WriteCloser, name string, args ...string) error {
	var handler http.Handler
	peer := barePeer{}
	switch {
	case name == "language" && len(args) == 0:
		return serveQuick(ctx, in, out)
	case name == "relay" && len(args) == 0:
		r, err := startRelay()
		if err != nil {
			return err
		}
		defer r.close()
		handler, peer.NATS = r, r.bus.ClientURL()
	case name == "nats" && len(args) == 1:
		bus, err := busembedded.Start(busembedded.Options{StoreDir: args[0], Listen: "127.0.0.1:0", Token: "bench"})
		if err != nil {
			return err
		}
		defer bus.Stop()
		handler, peer.NATS = http.NotFoundHandler(), bus.URL()
	case name == "gateway" && len(args) == 1:
		mux, stop, err := bareGateway(ctx, args[0])
		if err != nil {
			return err
		}
		defer stop()
		handler = mux
	case name == "streams" && len(args) == 2:
		s, err := startBareStreams(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		defer s.close()
		handler = s
	case name == "poster" && len(args) == 1:
		handler = poster(args[0])
	case name == "replay" && len(args) == 2:
		count, errCount := strconv.Atoi(args[0])
		size, errSize := strconv.Atoi(args[1])
		if err := errors.Join(errCount, errSize); err != nil {
			return err
		}
		handler = bareReplay(count, size)
	default:
		return fmt.Errorf("there is no peer %q with %d arguments", name, len(args))
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	front := &http.Server{Handler: handler}
	go func() { _ = front.Serve(port) }()
	defer front.Close()
	peer.HTTP = port.Addr().String()
	if err := json.NewEncoder(out).Encode(&peer); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// relay passes each message of a NATS subject to the sockets of its path. It has one subscription for each subject.
type relay struct {
	bus      *server.Server
	conn     *nats.Conn
	upgrader websocket.Upgrader
	mu       sync.Mutex
	topics   map[string][]chan []byte // of each subject, the queues of its sockets
}

// relayQueue is the number of frames that a socket of the relay may be behind.
const relayQueue = 1024

func startRelay() (*relay, error) {
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}
	bus, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	bus.Start()
	r := &relay{bus: bus, topics: map[string][]chan []byte{}}
	if !bus.ReadyForConnections(startLimit) {
		r.close()
		return nil, errors.New("the NATS server does not start")
	}
	if r.conn, err = nats.Connect(bus.ClientURL()); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *relay) close() {
	if r.conn != nil {
		r.conn.Close()
	}
	r.bus.Shutdown()
}

// join adds a queue to a subject.
func (r *relay) join(subject string) (chan []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	frames := make(chan []byte, relayQueue)
	r.topics[subject] = append(r.topics[subject], frames)
	if len(r.topics[subject]) > 1 {
		return frames, nil
	}
	_, err := r.conn.Subscribe(subject, func(m *nats.Msg) {
		r.mu.Lock()
		queues := r.topics[subject]
		r.mu.Unlock()
		for _, q := range queues {
			q <- m.Data
		}
	})
	if err != nil {
		return nil, err
	}
	return frames, r.conn.Flush()
}

// ServeHTTP relays the frames of the subject in the path. The first frame is empty and says that the socket is ready.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	conn, err := r.upgrader.Upgrade(w, req, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	frames, err := r.join(strings.TrimPrefix(req.URL.Path, "/"))
	if err != nil || conn.WriteMessage(websocket.TextMessage, nil) != nil {
		return
	}
	for data := range frames {
		if conn.WriteMessage(websocket.TextMessage, data) != nil {
			return
		}
	}
}

// bareReplay writes count frames of size bytes to each socket.
func bareReplay(count, size int) http.Handler {
	upgrader := websocket.Upgrader{}
	frame := []byte(strings.Repeat("x", size))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for range count {
			if conn.WriteMessage(websocket.TextMessage, frame) != nil {
				return
			}
		}
		_, _, _ = conn.ReadMessage() // until the reader leaves
	})
}

// fixedSessions answers with one session.
type fixedSessions struct {
	sessionmanagerv1.UnimplementedSessionServiceServer
	answer *apiv1.GetSessionResponse
}

// GetSession implements SessionService.
func (f fixedSessions) GetSession(context.Context, *apiv1.GetSessionRequest) (*apiv1.GetSessionResponse, error) {
	return f.answer, nil
}

// bareGateway is a gRPC service on a unix socket and a grpc-gateway before it, with nothing else.
func bareGateway(ctx context.Context, answer string) (http.Handler, func(), error) {
	fixed := &apiv1.GetSessionResponse{}
	if err := protojson.Unmarshal([]byte(answer), fixed); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "kaged-bench-")
	if err != nil {
		return nil, nil, err
	}
	service := grpc.NewServer()
	stop := func() { service.Stop(); _ = os.RemoveAll(dir) }
	sessionmanagerv1.RegisterSessionServiceServer(service, fixedSessions{answer: fixed})
	socket := filepath.Join(dir, "bare.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		stop()
		return nil, nil, err
	}
	go func() { _ = service.Serve(listener) }()
	mux := runtime.NewServeMux()
	err = sessionmanagerv1.RegisterSessionServiceHandlerFromEndpoint(ctx, mux, "unix:"+socket,
		[]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return mux, stop, nil
}

// dial opens a bare socket.
func dial(ctx context.Context, url string) (*websocket.Conn, error) {
	conn, resp, err := websocket.DefaultDialer.DialContext(ctx, url, nil)
	if resp != nil {
		_ = resp.Body.Close()
	}
	return conn, err
}
