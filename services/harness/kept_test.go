package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm/llmproto"
	"kaged.dev/pkg/testkit/fakellm"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// keeper is session-manager's side of sessions.
type keeper struct {
	*rig
	// offers says that the runs offer the beginnings of their conversations.
	offers bool
	// crossed is the number of messages of the last run's conversation that were sent.
	crossed int
}

// hashes returns the hashes of the conversation's beginnings, the shortest first, each with its number of messages.
func hashes(messages []*harnessv1.Message) (list []string, at map[string]int) {
	at = map[string]int{}
	chain := contract.Chain{}
	for i, m := range messages {
		from := contract.Source{MessageID: m.GetMessageId(), Step: int(m.GetStep())}
		chain = chain.With(llmproto.FromMessage(m), from, m.GetAlwaysKeep())
		if i+1 == len(messages) || messages[i+1].GetMessageId() != m.GetMessageId() {
			list = append(list, chain.String())
			at[chain.String()] = i + 1
		}
	}
	return list, at
}

// run runs a start with a conversation to its end, and returns its events.
func (k *keeper) run(
	ctx context.Context, start *harnessv1.RunStart, messages []*harnessv1.Message,
) []*harnessv1.RunEvent {
	k.t.Helper()
	start = proto.Clone(start).(*harnessv1.RunStart)
	list, at := hashes(messages)
	if k.offers {
		slices.Reverse(list)
		start.Beginnings = list
	}
	stream, err := k.client.Run(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	send := func(req *harnessv1.RunRequest) {
		if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
			k.t.Fatal(err)
		}
	}
	send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Start{Start: start}})
	history := &harnessv1.History{Messages: messages}
	if len(start.GetBeginnings()) > 0 {
		ev, err := stream.Recv()
		if err != nil || ev.GetHistoryWanted() == nil {
			k.t.Fatalf("the offered beginnings were answered by %v, %v", ev, err)
		}
		history.After = ev.GetHistoryWanted().GetAfter()
		history.Messages = messages[at[history.GetAfter()]:]
	}
	k.crossed = len(history.GetMessages())
	send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_History{History: history}})
	send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Begin{Begin: &harnessv1.RunBegin{}}})
	w := &watched{stream: stream}
	for {
		if _, err := w.next(); errors.Is(err, io.EOF) {
			return w.events
		} else if err != nil {
			k.t.Fatal(err)
		}
	}
}

// storedAs returns the message of a run as a later run gets it.
func storedAs(id string, events []*harnessv1.RunEvent) []*harnessv1.Message {
	var out []*harnessv1.Message
	results := map[int32]*harnessv1.Message{}
	for _, ev := range events {
		switch {
		case ev.GetTurn() != nil:
			step := ev.GetTurn().GetStep()
			out = append(out, &harnessv1.Message{
				Role: harnessv1.Role_ROLE_ASSISTANT, Blocks: ev.GetTurn().GetBlocks(), MessageId: id, Step: step,
			})
		case ev.GetToolResult() != nil:
			step := ev.GetToolResult().GetStep()
			if results[step] == nil {
				results[step] = &harnessv1.Message{Role: harnessv1.Role_ROLE_TOOL, MessageId: id, Step: step}
				out = append(out, results[step])
			}
			results[step].Blocks = append(results[step].Blocks, &harnessv1.Block{
				Block: &harnessv1.Block_ToolResult{ToolResult: ev.GetToolResult().GetResult()},
			})
		}
	}
	return out
}

// recorded returns the items and the bytes of the requests by their records.
func recorded(events []*harnessv1.RunEvent) (out []map[string]any) {
	add := func(typ string, payload map[string]any) {
		kept := map[string]any{"type": typ}
		for _, key := range []string{"step", "hash", "base_hash", "item_count", "new_items", "body_sha256", "note"} {
			kept[key] = payload[key]
		}
		out = append(out, kept)
	}
	for _, ev := range events {
		if a := ev.GetAudit(); a != nil {
			add(a.GetEventType(), a.GetPayload().AsMap())
		}
		for _, a := range ev.GetCallWanted().GetAudit() {
			add(a.GetEventType(), a.GetPayload().AsMap())
		}
	}
	return out
}

// head returns the end of the chain of records after the events.
func headAfter(before *harnessv1.AuditHead, events []*harnessv1.RunEvent) *harnessv1.AuditHead {
	for _, ev := range events {
		if ev.GetAuditHead() != nil {
			before = ev.GetAuditHead()
		}
	}
	return before
}

func said(id, text string) *harnessv1.Message {
	m := user(text)
	m.MessageId = id
	return m
}

// session is a session that changes in any way between its runs.
type session struct {
	start    *harnessv1.RunStart
	messages []*harnessv1.Message
	runs     int
}

// change changes the session as operators, compactions and crashes do.
func (s *session) change(t *rapid.T) {
	n := len(s.messages)
	switch what := rapid.IntRange(0, 13).Draw(t, "change"); {
	case what == 0 && n > 0: // a fork, or an edit: the conversation goes on from an earlier message
		s.messages = slices.Clone(s.messages[:rapid.IntRange(0, n).Draw(t, "fork")])
	case what == 1 && n > 2: // a compaction, or with the same note again its undoing in part
		until := rapid.IntRange(1, n-1).Draw(t, "superseded")
		note := &harnessv1.Message{Role: harnessv1.Role_ROLE_SYSTEM, Blocks: user("Earlier: work.").GetBlocks()}
		s.messages = append([]*harnessv1.Message{note}, s.messages[until:]...)
	case what == 2 && n > 0: // a mark against compaction
		at := rapid.IntRange(0, n-1).Draw(t, "kept")
		marked := proto.Clone(s.messages[at]).(*harnessv1.Message)
		marked.AlwaysKeep = !marked.GetAlwaysKeep()
		s.messages = slices.Clone(s.messages)
		s.messages[at] = marked
	case what == 3 && n > 0: // another text in the middle, as no session has it
		at := rapid.IntRange(0, n-1).Draw(t, "edited")
		edited := proto.Clone(s.messages[at]).(*harnessv1.Message)
		for _, b := range edited.GetBlocks() {
			if b.GetText() != nil {
				b.GetText().Text += "!"
			}
		}
		s.messages = slices.Clone(s.messages)
		s.messages[at] = edited
	case what == 4: // another key, which is redacted
		target := s.start.GetRoutes()["smart"].GetTargets()[0]
		target.ApiKey = rapid.SampledFrom([]string{"test-key-123456", "other-key-123456"}).Draw(t, "key")
	case what == 5: // another model
		target := s.start.GetRoutes()["smart"].GetTargets()[0]
		target.Model = rapid.SampledFrom([]string{"fake-model", "fake-model-2"}).Draw(t, "model")
	case what == 6:
		s.start.Prompts["p.md"] = rapid.SampledFrom([]string{"You are careful.", "You are quick."}).Draw(t, "prompt")
	case what == 7:
		s.start.GetCompiled().GetRoot().Tools = rapid.SampledFrom([][]string{{"file.read", "file.write"}, {"file.read"}}).
			Draw(t, "tools")
	case what == 8: // other rules of pruning
		protect, least := int64(rapid.IntRange(0, 400).Draw(t, "protect")), int64(1)
		s.start.GetCompiled().GetRoot().GetCompaction().Prune = &harnessv1.AgentPruning{
			ProtectTokens: &protect, MinimumSavings: &least,
		}
	case what == 9: // the records of another holder
		s.start.AuditHead = nil
	case what == 11: // another wire format, whose thinking the old one refuses
		s.start.GetRoutes()["smart"].GetTargets()[0].Driver = driver.Draw(t, "driver")
	case what == 10: // secrets are shown, or no longer
		root := s.start.GetCompiled().GetRoot()
		if root.GetPolicy() == nil {
			root.Policy = &harnessv1.AgentPolicy{}
		}
		root.Policy.ShowSecrets = !root.GetPolicy().GetShowSecrets()
	}
}

// A harness that keeps conversations sends the same bytes to the model, and reports the same records, as one that is
// given the whole conversation for each run: after edits, forks, compactions, marks, other keys, models, prompts, tools
// and rules, after lost records, and after a move to another harness and back.
func TestKeptConversationsChangeNoByte(t *testing.T) {
	// A session moves between two harnesses, so that each has older beginnings of the conversation, too. Each is compared
	// with one of the same runs, because a harness corrects its estimates by the counts that it has seen.
	keeps := []*keeper{{rig: newRig(t), offers: true}, {rig: newRig(t), offers: true}}
	whole := []*keeper{{rig: newRig(t)}, {rig: newRig(t)}}
	number, hits := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		s := &session{start: keeps[0].start(driver.Draw(rt, "driver"))}
		s.start.SessionId = fmt.Sprint("session", number)
		s.start.GetCompiled().GetRoot().Compaction = &harnessv1.AgentCompaction{}
		window := rapid.SampledFrom([]int32{0, 0, 900}).Draw(rt, "window")
		s.start.GetRoutes()["smart"].GetTargets()[0].Facts = &harnessv1.ModelFacts{ContextWindow: window, MaxOutput: 50}
		for range rapid.IntRange(2, 8).Draw(rt, "runs") {
			at := rapid.IntRange(0, 1).Draw(rt, "harness")
			hits += oneRun(rt, s, keeps[at], whole[at])
			s.change(rt)
		}
	})
	if hits == 0 {
		t.Error("no run used a kept conversation")
	}
	t.Logf("%d runs used kept conversations of %d sessions", hits, number)
}

var driver = rapid.SampledFrom([]string{"anthropic", "openai", "openai-chat", "google"})

// oneRun posts a message to the session in both harnesses, and compares them. It returns 1 if the first one used a kept
// conversation.
func oneRun(rt *rapid.T, s *session, keeps, whole *keeper) (hit int) {
	s.runs++
	steps := rapid.IntRange(0, 3).Draw(rt, "steps")
	size := rapid.SampledFrom([]int{1, 40, 400}).Draw(rt, "size")
	asked := strings.Repeat("word ", rapid.IntRange(0, 80).Draw(rt, "words")) + "test-key-123456 other-key-123456"
	s.messages = append(slices.Clip(s.messages), said(fmt.Sprint("u", s.runs), asked))
	s.start.RunId, s.start.MessageId = fmt.Sprint("run", s.runs), fmt.Sprint("a", s.runs)
	fails := rapid.IntRange(0, 9).Draw(rt, "fails") == 0
	var bodies [2][][]byte
	var events [2][]*harnessv1.RunEvent
	for i, k := range []*keeper{keeps, whole} {
		asked := 0
		k.tools.mu.Lock()
		k.tools.run["file.read"] = func(_ context.Context, in string) (string, error) {
			return strings.Repeat("line of "+in+"\n", size), nil
		}
		k.tools.mu.Unlock()
		k.model.Keep(100)
		k.model.Handle(func(*fakellm.Request) fakellm.Step {
			asked++
			switch {
			case asked <= steps:
				return fakellm.Step{
					fakellm.Think("Hm."), fakellm.Say("I look."),
					fakellm.ToolID(fmt.Sprintf("call_%d_%d", s.runs, asked), "file.read", fmt.Sprintf(`{"path":"f%d"}`, asked)),
				}
			case fails:
				return fakellm.Step{fakellm.Status(400, "No.")}
			}
			return fakellm.Step{fakellm.Say(fmt.Sprint("Done ", s.runs, "."))}
		})
		before := 0
		if earlier := k.model.Requests(); len(earlier) > 0 {
			before = earlier[len(earlier)-1].N
		}
		start := proto.Clone(s.start).(*harnessv1.RunStart)
		target := start.GetRoutes()["smart"].GetTargets()[0]
		target.BaseUrl = k.model.BaseURL(target.GetDriver())
		events[i] = k.run(k.t.Context(), start, s.messages)
		for _, r := range k.model.Requests() {
			if r.N > before {
				bodies[i] = append(bodies[i], r.Body)
			}
		}
	}
	if len(bodies[0]) != len(bodies[1]) {
		rt.Fatalf("run %d made %d requests with what is kept, %d without", s.runs, len(bodies[0]), len(bodies[1]))
	}
	for i := range bodies[0] {
		if !bytes.Equal(bodies[0][i], bodies[1][i]) {
			rt.Fatalf("request %d of run %d differs (-without +with):\n%s", i+1, s.runs,
				cmp.Diff(string(bodies[1][i]), string(bodies[0][i])))
		}
	}
	if d := cmp.Diff(recorded(events[1]), recorded(events[0])); d != "" {
		rt.Fatalf("the records of run %d differ (-without +with):\n%s", s.runs, d)
	}
	s.start.AuditHead = headAfter(s.start.GetAuditHead(), events[1])
	s.messages = append(s.messages, storedAs(s.start.GetMessageId(), events[1])...)
	if keeps.crossed < whole.crossed {
		return 1
	}
	return 0
}
