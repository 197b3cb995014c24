package harness

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/fault"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Compact estimates or compacts the conversation of a session without a run. It fails with unavailable if the harness
// cannot be reached in time.
func (h *Harness) Compact(
	ctx context.Context, s runs.Start, order contract.CompactOrder, grant runs.Granter,
) (contract.Compacted, error) {
	compiled, err := h.snapshot(s.Inputs.Snapshot)
	if err != nil {
		return contract.Compacted{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(h.patience, func() {
		cancel(fault.New(fault.Unavailable, "The harness cannot be reached; try again shortly.").With("subsystem", "harness"))
	})
	stream, err := h.client.Compact(ctx, grpc.WaitForReady(true))
	if !late.Stop() || err != nil {
		return contract.Compacted{}, because(ctx, err)
	}
	requests := []*harnessv1.CompactRequest{
		{Request: &harnessv1.CompactRequest_Start{Start: runStart(s, compiled, h.noSandbox)}},
	}
	for _, piece := range pieces(transcript.History(s.Stored, compiled.GetRoot().GetIncludeToolResultsInContext())) {
		requests = append(requests, &harnessv1.CompactRequest{
			Request: &harnessv1.CompactRequest_History{History: &harnessv1.History{Messages: piece}},
		})
	}
	requests = append(requests, &harnessv1.CompactRequest{
		Request: &harnessv1.CompactRequest_Order{Order: harnesswire.Order(order)},
	})
	for _, req := range requests {
		if err := stream.Send(req); err != nil {
			break // Recv returns the reason
		}
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return contract.Compacted{}, because(ctx, err)
		}
		w, waits := harnesswire.FromWanted(answer)
		if !waits {
			return harnesswire.FromCompacted(answer), nil
		}
		err = stream.Send(&harnessv1.CompactRequest{Request: &harnessv1.CompactRequest_Granted{
			Granted: harnesswire.Granted(grant(ctx, w), ""),
		}})
		if err != nil {
			return contract.Compacted{}, because(ctx, err)
		}
	}
}
