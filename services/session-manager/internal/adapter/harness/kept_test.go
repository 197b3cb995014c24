package harness

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// A harness that has kept a beginning of the conversation gets the messages after it; a harness without one, another
// one, or an older one that does not know the question, gets all. No event of the run is lost meanwhile.
func TestOnlyWhatTheHarnessLacksIsSent(t *testing.T) {
	delta := &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Delta{
		Delta: &harnessv1.Delta{Kind: harnessv1.DeltaKind_DELTA_KIND_TEXT, Text: "a"},
	}}
	wanted := func(after string) *harnessv1.RunEvent {
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_HistoryWanted{
			HistoryWanted: &harnessv1.HistoryWanted{After: after},
		}}
	}
	one := func(ev *harnessv1.RunEvent) []*harnessv1.RunEvent { return []*harnessv1.RunEvent{ev} }
	for name, c := range map[string]struct {
		answer func(offered []string) []*harnessv1.RunEvent
		late   []*harnessv1.RunEvent
		want   string
		events int
	}{
		"the last": {func(o []string) []*harnessv1.RunEvent { return one(wanted(o[0])) }, nil, "[] true", 0},
		"an earlier one": {
			func(o []string) []*harnessv1.RunEvent { return []*harnessv1.RunEvent{wanted(o[1]), delta} }, nil, "[c] true", 1,
		},
		"none":        {func([]string) []*harnessv1.RunEvent { return one(wanted("")) }, nil, "[a b c] false", 0},
		"another one": {func([]string) []*harnessv1.RunEvent { return one(wanted("x")) }, nil, "[a b c] false", 0},
		"an event":    {func([]string) []*harnessv1.RunEvent { return one(delta) }, nil, "[a b c] false", 1},
		"silence":     {func([]string) []*harnessv1.RunEvent { return nil }, one(delta), "[a b c] false", 1},
		"a late answer": {
			func([]string) []*harnessv1.RunEvent { return nil },
			[]*harnessv1.RunEvent{wanted("x"), delta},
			"[a b c] false", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			conn := connect(t, func(s grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error {
				var texts []string
				after := false
				for {
					req, err := s.Recv()
					if err != nil {
						return err
					}
					send := c.late
					if req.GetStart() != nil {
						send = c.answer(req.GetStart().GetBeginnings())
					}
					for _, m := range req.GetHistory().GetMessages() {
						texts = append(texts, m.GetBlocks()[0].GetText().GetText())
					}
					after = after || req.GetHistory().GetAfter() != ""
					if req.GetStart() == nil && req.GetBegin() == nil {
						continue
					}
					for _, ev := range send {
						if err := s.Send(ev); err != nil {
							return err
						}
					}
					if req.GetBegin() != nil {
						got <- fmt.Sprint(texts, after)
						return nil
					}
				}
			})
			start := spec(t, &harnessv1.AgentNode{Key: "primary"})
			start.Talk = new(transcript.Talk)
			for _, text := range []string{"a", "b", "c"} {
				start.Stored = append(start.Stored, transcript.Stored{ID: text, Role: llm.RoleUser, Content: text})
			}
			stream, err := New(conn, time.Minute, false, nil, anywhere).Start(t.Context(), start)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, <-got); d != "" {
				t.Errorf("-want +got: %s", d)
			}
			events := 0
			for {
				if _, err := stream.Recv(); err != nil {
					break
				}
				events++
			}
			if events != c.events {
				t.Errorf("%d events of the run arrived, want %d", events, c.events)
			}
		})
	}
}
