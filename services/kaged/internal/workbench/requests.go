package workbench

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// requests is the sending side of a command's stream. Its methods may be called concurrently.
type requests struct {
	one    sync.Mutex // one message at a time
	stream grpc.BidiStreamingClient[sandboxsupervisorv1.ExecRequest, sandboxsupervisorv1.ExecEvent]
}

func (r *requests) send(m *sandboxsupervisorv1.ExecRequest) error {
	r.one.Lock()
	defer r.one.Unlock()
	return r.stream.Send(m)
}

// inputPiece is the maximum size of standard input in one message.
const inputPiece = 32 << 10

// input sends the content of from, then its end. It ends when the stream has ended.
func (r *requests) input(from io.Reader) {
	buf := make([]byte, inputPiece)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			data := append([]byte(nil), buf[:n]...)
			if r.send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Stdin{Stdin: data}}) != nil {
				return
			}
		}
		if err != nil {
			_ = r.send(&sandboxsupervisorv1.ExecRequest{
				Request: &sandboxsupervisorv1.ExecRequest_CloseStdin{CloseStdin: &sandboxsupervisorv1.CloseStdin{}},
			})
			return
		}
	}
}

// control sends sizes and signals until ctx ends.
func (r *requests) control(ctx context.Context, c Command) {
	for {
		var m *sandboxsupervisorv1.ExecRequest
		select {
		case size := <-c.Resized:
			m = &sandboxsupervisorv1.ExecRequest{
				Request: &sandboxsupervisorv1.ExecRequest_Resize{Resize: &sandboxsupervisorv1.Resize{Terminal: sizeToProto(size)}},
			}
		case name := <-c.Signals:
			m = &sandboxsupervisorv1.ExecRequest{
				Request: &sandboxsupervisorv1.ExecRequest_Signal{Signal: &sandboxsupervisorv1.Signal{Name: name}},
			}
		case <-ctx.Done():
			return
		}
		if r.send(m) != nil {
			return
		}
	}
}
