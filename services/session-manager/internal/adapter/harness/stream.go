package harness

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm/llmproto"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// stream implements [runs.Stream].
type stream struct {
	grpc   grpc.BidiStreamingClient[harnessv1.RunRequest, harnessv1.RunEvent]
	ctx    context.Context
	cancel context.CancelCauseFunc

	sending sync.Mutex // one request at a time
	// early is the event that [stream.wanted] waits for, nil without one. It belongs to the receiving goroutine.
	early chan received
}

// received is an event of the harness, or the end of its stream.
type received struct {
	event *harnessv1.RunEvent
	err   error
}

func (s *stream) send(req *harnessv1.RunRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.grpc.Send(req)
}

// begin sends the run's inputs, the conversation in pieces, and the invocations of a run that was handed over.
// Of the conversation only the part is sent that the harness lacks.
func (s *stream) begin(start *harnessv1.RunStart, c transcript.Conversation, agents []contract.Continued) error {
	for _, b := range c.Beginnings {
		start.Beginnings = append(start.Beginnings, b.Hash)
	}
	if err := s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Start{Start: start}}); err != nil {
		return s.refused(err)
	}
	after, err := s.wanted(c.Beginnings)
	if err != nil {
		return err
	}
	first := &harnessv1.History{After: after.Hash}
	list := pieces(c.Messages[after.Messages:])
	if len(list) == 0 && after.Hash != "" {
		list = append(list, nil)
	}
	for _, piece := range list {
		first.Messages = piece
		req := &harnessv1.RunRequest{Request: &harnessv1.RunRequest_History{History: first}}
		if err := s.send(req); err != nil {
			return s.refused(err)
		}
		first = &harnessv1.History{}
	}
	for _, c := range continued(agents) {
		if err := s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Continued{Continued: c}}); err != nil {
			return s.refused(err)
		}
	}
	err = s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Begin{Begin: &harnessv1.RunBegin{Hold: true}}})
	return s.refused(err)
}

// wantedFor is the longest wait for a harness's answer to the offered beginnings. An older harness gives no answer.
const wantedFor = time.Second

// wanted returns the beginning that the harness has kept, the zero value without one.
func (s *stream) wanted(offered []transcript.Beginning) (transcript.Beginning, error) {
	if len(offered) == 0 {
		return transcript.Beginning{}, nil
	}
	early := make(chan received, 1)
	go func() { // ends with the stream
		ev, err := s.grpc.Recv()
		early <- received{ev, err}
	}()
	late := time.NewTimer(wantedFor)
	defer late.Stop()
	select {
	case r := <-early:
		if r.err != nil {
			return transcript.Beginning{}, because(s.ctx, r.err)
		}
		at := slices.IndexFunc(offered, func(b transcript.Beginning) bool {
			return b.Hash == r.event.GetHistoryWanted().GetAfter()
		})
		if at >= 0 {
			return offered[at], nil
		}
		if r.event.GetHistoryWanted() == nil {
			s.early = early
			early <- r // an event of the run
		}
	case <-late.C:
		s.early = early
	}
	return transcript.Beginning{}, nil
}

// receive returns the next event.
func (s *stream) receive() (*harnessv1.RunEvent, error) {
	if early := s.early; early != nil {
		s.early = nil
		r := <-early
		return r.event, r.err
	}
	return s.grpc.Recv()
}

// continued returns invocations for the harness, with their messages and results in pieces of about a chunk.
func continued(agents []contract.Continued) []*harnessv1.Continued {
	var out []*harnessv1.Continued
	for _, a := range agents {
		messages, results := harnesswire.ContinuedMessages(a.Messages), a.Results
		a.Results = nil
		last, room := harnesswire.Continued(a), chunk
		out = append(out, last)
		next := func(size int) {
			if size > room {
				last, room = &harnessv1.Continued{InvocationId: a.InvocationID}, chunk
				out = append(out, last)
			}
			room -= size
		}
		for _, m := range messages {
			next(proto.Size(m))
			last.Messages = append(last.Messages, m)
		}
		for _, r := range results {
			p := llmproto.Result(r)
			next(proto.Size(p))
			last.Results = append(last.Results, p)
		}
	}
	return out
}

// refused returns the reason for which the harness ended the stream: Send only returns io.EOF, the error is in
// Recv.
func (s *stream) refused(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if _, err = s.receive(); err == nil {
		err = fault.New(fault.Internal, "The harness ended the run before it began.")
	}
	return err
}

// pieces splits a conversation into pieces of about a chunk. Results of one turn that exceed a chunk become several
// messages, which the harness treats as one.
func pieces(history []transcript.Message) [][]*harnessv1.Message {
	var out [][]*harnessv1.Message
	var piece []*harnessv1.Message
	room := chunk
	for _, m := range history {
		for _, part := range apart(message(m)) {
			size := proto.Size(part)
			if size > room && len(piece) > 0 {
				out = append(out, piece)
				piece, room = nil, chunk
			}
			piece = append(piece, part)
			room -= size
		}
	}
	if len(piece) > 0 {
		out = append(out, piece)
	}
	return out
}

//convert:use llmproto.Roles llmproto.Blocks
//convert:one message transcript.Message *harnessv1.Message

// apart splits a message of results that exceeds a chunk between its blocks.
func apart(m *harnessv1.Message) []*harnessv1.Message {
	if m.GetRole() != harnessv1.Role_ROLE_TOOL || proto.Size(m) <= chunk {
		return []*harnessv1.Message{m}
	}
	var out []*harnessv1.Message
	room := 0
	for _, b := range m.GetBlocks() {
		size := proto.Size(b)
		if size > room {
			out = append(out, &harnessv1.Message{
				Role: m.GetRole(), MessageId: m.GetMessageId(), Step: m.GetStep(), AlwaysKeep: m.GetAlwaysKeep(),
			})
			room = chunk
		}
		last := out[len(out)-1]
		last.Blocks = append(last.Blocks, b)
		room -= size
	}
	return out
}

// Go implements [runs.Stream]. It succeeds for a run that ended during its preparation: the run's last event has
// the reason.
func (s *stream) Go() error {
	err := s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Go{Go: &harnessv1.RunGo{}}})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Stored implements [runs.Stream].
func (s *stream) Stored(half runs.Half, news runs.News) error {
	stored := &harnessv1.StepStored{
		InvocationId: half.InvocationID, Step: int32(half.Step), Part: harnessv1.StepPart_STEP_PART_TURN,
		Routes: harnesswire.Routes(news.Routes), OpenTodos: harnesswire.OpenTodos(news.Todos),
		Steers: harnesswire.Steers(news.Steers),
	}
	if half.Results {
		stored.Part = harnessv1.StepPart_STEP_PART_RESULTS
	}
	return s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Stored{Stored: stored}})
}

// Decide implements [runs.Stream].
func (s *stream) Decide(approvalID string, d contract.Decision) error {
	return s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Decision{
		Decision: harnesswire.Decision(d, approvalID),
	}})
}

// Grant implements [runs.Stream].
func (s *stream) Grant(invocation string, g contract.CallGranted) error {
	return s.send(&harnessv1.RunRequest{
		Request: &harnessv1.RunRequest_Granted{Granted: harnesswire.Granted(g, invocation)},
	})
}

// Cancel implements [runs.Stream].
func (s *stream) Cancel(reason string) error {
	return s.send(&harnessv1.RunRequest{
		Request: &harnessv1.RunRequest_Cancel{Cancel: &harnessv1.RunCancel{Reason: reason}},
	})
}

// CancelInvocation implements [runs.Stream].
func (s *stream) CancelInvocation(id, reason string) error {
	return s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_CancelInvocation{
		CancelInvocation: &harnessv1.CancelInvocation{InvocationId: id, Reason: reason},
	}})
}

// Halt implements [runs.Stream].
func (s *stream) Halt() error {
	return s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Halt{Halt: &harnessv1.RunHalt{}}})
}

// Recv implements [runs.Stream]. It skips events of unknown types and a late answer to the offered beginnings.
func (s *stream) Recv() (contract.Happening, error) {
	for {
		ev, err := s.receive()
		if err != nil {
			err = because(s.ctx, err)
			s.cancel(nil)
			if errors.Is(err, io.EOF) {
				err = fault.New(fault.Internal, "The harness ended the run without saying how.")
			}
			return contract.Happening{}, err
		}
		out := harnesswire.FromEvent(ev)
		if _, late := out.Event.(contract.HistoryWanted); out.Event != nil && !late {
			if _, last := out.Event.(contract.Finished); last {
				s.cancel(nil)
			}
			return out, nil
		}
	}
}
