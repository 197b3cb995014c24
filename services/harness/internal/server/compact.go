package server

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/harness/internal/core/loop"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

type compactStream = grpc.BidiStreamingServer[harnessv1.CompactRequest, harnessv1.CompactResponse]

// Compact estimates or compacts the conversation of an agent between runs.
func (s *Server) Compact(stream compactStream) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.runs.Done()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	var start *started
	held := 0
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return fault.New(fault.BadRequest, "The conversation was given no order.")
		}
		if err != nil {
			return err
		}
		switch {
		case start == nil && req.GetStart() == nil:
			return fault.New(fault.BadRequest, "The first request is the start.")
		case req.GetStart() != nil && start != nil:
			return fault.New(fault.BadRequest, "A conversation has one start.")
		case req.GetStart() != nil:
			start, err = startFromProto(req.GetStart())
		case req.GetHistory() != nil:
			held, err = s.take(start, req.GetHistory(), held)
		case req.GetOrder() != nil:
			tools, err := s.deps.Workspaces.Open(start.workspace)
			if err != nil {
				return err
			}
			start.History, start.Sources = start.conversation.messages, start.conversation.sources
			start.Kept = start.conversation.always()
			out, err := loop.Compact(ctx, s.loopDeps(tools, s.stopping.Done()), start.Start,
				harnesswire.FromOrder(req.GetOrder()), granter(stream))
			if err != nil {
				return err
			}
			return stream.Send(harnesswire.Compacted(out))
		default:
			return fault.New(fault.BadRequest, "Only a start, pieces of the conversation and an order may come.")
		}
		if err != nil {
			return err
		}
	}
}

// granter returns a Granter that asks the caller. The caller answers one call after the other.
func granter(stream compactStream) loop.Granter {
	return func(_ context.Context, w contract.CallWanted) (contract.CallGranted, error) {
		if err := stream.Send(harnesswire.Wanted(w)); err != nil {
			return contract.CallGranted{}, err
		}
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return contract.CallGranted{}, fault.New(fault.Cancelled, "The caller of the compaction answers no more.")
		}
		if err != nil {
			return contract.CallGranted{}, err
		}
		_, g := harnesswire.FromGranted(req.GetGranted())
		if req.GetGranted() == nil || g.Call != w.Call {
			return contract.CallGranted{}, fault.New(fault.BadRequest, "A model call is wanted, and only its grant may come.")
		}
		return g, nil
	}
}
