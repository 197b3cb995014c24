package server

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/llmproto"
	"kaged.dev/services/harness/internal/core/loop"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

type runStream = grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]

// Run runs one agent. A failure of the run itself is in its last event. Run fails only if the caller breaks the order
// of requests, or if the server stops.
func (s *Server) Run(stream runStream) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.runs.Done()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()

	start, err := s.receive(stream)
	if err != nil {
		return err
	}
	if start != nil {
		s.carry(start)
	}
	run := newRunSink(stream)
	if start == nil {
		return run.finish(contract.Finished{Outcome: contract.Cancelled, Stop: stopAborted})
	}
	if start.onHold {
		start.Hold = run.hold
	} else {
		close(run.released)
	}
	for i := range start.Continued {
		run.follow(start.Continued[i].InvocationID)
	}
	tools, err := s.deps.Workspaces.Open(start.workspace)
	if err != nil {
		s.giveBack(start)
		return run.finish(contract.Finished{Outcome: contract.Failed, Stop: stopError, Err: fault.From(err)})
	}
	stopping, halt := context.WithCancel(s.stopping)
	defer halt()
	tree := loop.New(s.loopDeps(tools, stopping.Done()), start.Start, run)
	s.helpers.Go(func() { run.listen(tree, cancel, halt) })
	return run.finish(tree.Run(ctx))
}

// loopDeps returns the dependencies of a run in a workspace.
func (s *Server) loopDeps(tools loop.Tools, stopping <-chan struct{}) loop.Deps {
	return loop.Deps{
		Models: s.deps.Models, Tools: tools, Prices: s.deps.Prices, Log: s.deps.Log, Watch: s.deps.Watch,
		Stopping: stopping, Limits: s.deps.Limits, Memories: s.deps.Memories, Meters: &s.meters, Beat: &s.beat,
		Hooks: s.deps.Hooks, CagesOnly: s.deps.CagesOnly,
	}
}

// started holds the parameters of a run.
type started struct {
	loop.Start
	workspace string
	onHold    bool
	// beginnings are the offered hashes, and kept is the session's conversation if it is one of them, or nil.
	beginnings []string
	kept       *talk
	// conversation is the received part, after the kept one.
	conversation conversation
	pieces       int
}

// carry completes a start with its conversation, and keeps that at the end of the run. Without beginnings the
// conversation of a run is neither used nor kept.
func (s *Server) carry(start *started) {
	c := start.conversation
	start.History, start.Sources, start.Kept = c.messages, c.sources, c.always()
	if start.kept != nil {
		start.Carried = start.kept.carried
	}
	if len(start.beginnings) > 0 && s.talks.list != nil {
		start.Carry = func(carried *loop.Carried) {
			s.talks.put(start.SessionID, &talk{conversation: c, carried: carried})
		}
	}
}

// answerBeginnings takes the session's kept conversation if it is offered, and answers with its hash.
func (s *Server) answerBeginnings(stream runStream, start *started) error {
	if len(start.beginnings) == 0 {
		return nil
	}
	wanted := contract.HistoryWanted{}
	if kept := s.talks.take(start.SessionID); kept != nil {
		if hash := kept.chain.String(); slices.Contains(start.beginnings, hash) {
			start.kept, wanted.After = kept, hash
		} else {
			kept.carried.Drop()
		}
	}
	ev, err := harnesswire.Event(contract.Happening{Event: wanted})
	if err != nil {
		return err
	}
	return stream.Send(ev)
}

// giveBack keeps the conversation of a run that does not begin.
func (s *Server) giveBack(start *started) {
	if start != nil && start.kept != nil {
		s.talks.put(start.SessionID, start.kept)
	}
}

// receive reads requests up to begin. It returns nil without an error if the caller cancels the run before begin.
func (s *Server) receive(stream runStream) (begun *started, err error) {
	var start *started
	held := 0
	defer func() {
		if begun == nil {
			s.giveBack(start)
		}
	}()
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, fault.New(fault.BadRequest, "The run was given no begin.")
		}
		if err != nil {
			return nil, err
		}
		if start == nil && req.GetStart() == nil && req.GetCancel() == nil {
			return nil, fault.New(fault.BadRequest, "The first request of a run is its start.")
		}
		switch {
		case req.GetStart() != nil:
			if start != nil {
				return nil, fault.New(fault.BadRequest, "A run has one start.")
			}
			if start, err = startFromProto(req.GetStart()); err == nil {
				err = s.answerBeginnings(stream, start)
			}
			if err != nil {
				return nil, err
			}
		case req.GetHistory() != nil:
			if held, err = s.take(start, req.GetHistory(), held); err != nil {
				return nil, err
			}
		case req.GetContinued() != nil:
			if held, err = s.goOn(start, req.GetContinued(), held); err != nil {
				return nil, err
			}
		case req.GetCancel() != nil:
			return nil, nil
		case req.GetBegin() != nil:
			start.onHold = req.GetBegin().GetHold()
			return start, nil
		default:
			return nil, fault.New(fault.BadRequest, "Before a run begins, only its start, its history, its "+
				"continued invocations and a cancel may come.")
		}
	}
}

// goOn adds an unfinished invocation of a handed over run to a start, or adds further parts to the last one. It
// returns the bytes of all conversations so far.
func (s *Server) goOn(start *started, p *harnessv1.Continued, held int) (int, error) {
	c := harnesswire.FromContinued(p)
	for _, m := range c.Messages {
		held += size(m)
	}
	if c.Open != nil {
		held += size(llm.Message{Blocks: c.Open.Blocks})
	}
	for _, r := range c.Results {
		held += size(llm.Message{Blocks: []llm.Block{{Result: &r}}})
	}
	if held > s.deps.MaxHistoryBytes {
		return held, s.tooLong()
	}
	if n := len(start.Continued); n > 0 && start.Continued[n-1].InvocationID == c.InvocationID {
		last := &start.Continued[n-1]
		last.Messages = append(last.Messages, c.Messages...)
		last.Results = append(last.Results, c.Results...)
		return held, nil
	}
	start.Continued = append(start.Continued, c)
	return held, nil
}

func (s *Server) tooLong() error {
	return fault.New(fault.PayloadTooLarge, "The conversation is larger than %d bytes.", s.deps.MaxHistoryBytes).
		With("limit_bytes", s.deps.MaxHistoryBytes)
}

// take adds a part of the conversation to a start and returns the bytes of all conversations so far. The first part
// says whether it follows the kept conversation.
func (s *Server) take(start *started, h *harnessv1.History, held int) (int, error) {
	c := &start.conversation
	start.pieces++
	switch after := h.GetAfter(); {
	case after == "" && start.pieces == 1 && start.kept != nil:
		start.kept.carried.Drop()
		start.kept = nil
	case after == "":
	case start.pieces > 1 || start.kept == nil || start.kept.chain.String() != after:
		return held, fault.New(fault.BadRequest, "The history follows a beginning that the harness does not have.")
	default:
		*c = start.kept.conversation // which no other run has, so the lists are appended to in place
		held += c.bytes
	}
	for _, m := range h.GetMessages() {
		message := llmproto.FromMessage(m)
		if held += size(message); held > s.deps.MaxHistoryBytes {
			return held, s.tooLong()
		}
		c.add(message, contract.Source{MessageID: m.GetMessageId(), Step: int(m.GetStep())}, m.GetAlwaysKeep())
	}
	return held, nil
}
