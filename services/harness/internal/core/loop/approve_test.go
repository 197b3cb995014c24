package loop

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// guarded is a tool runner that asks about every call of shell.bash until the call is granted.
type guarded struct {
	*tools
	grants []string
	// vary makes each question differ from the one before.
	vary bool
	// lost makes granted calls fail like calls of a lost tool runner.
	lost bool
}

func (g *guarded) Run(ctx context.Context, req ToolRequest, output func(stream, text string)) (ToolOutcome, error) {
	fingerprint := "one"
	if g.vary {
		fingerprint = strings.Repeat("x", len(g.grants)+1)
	}
	if req.Tool != "shell.bash" {
		return g.tools.Run(ctx, req, output)
	}
	g.grants = append(g.grants, req.Grant)
	if req.Grant != fingerprint {
		return ToolOutcome{
			Question: &contract.Question{
				Subject:     contract.Subject{Tool: "shell.bash", Reasons: []string{"why"}, Command: req.Input},
				Fingerprint: fingerprint,
			},
			Audit: []contract.Record{{Type: "tool.called"}, {Type: "tool.approval.requested"}},
		}, nil
	}
	if g.lost {
		return ToolOutcome{}, fault.New(fault.Unavailable, "gone")
	}
	return ToolOutcome{Content: `{"ok":true}`, Audit: []contract.Record{{Type: "tool.completed"}}}, nil
}

func (g *guarded) Hold(ctx context.Context, id string, caller *contract.Caller) (Cage, error) {
	return g.tools.Hold(ctx, id, caller)
}

// asking is a bench with a model that wants one command and then is done.
func asking(t *testing.T) (*bench, *guarded) {
	b := newBench(t, wants(call("c1", "shell.bash", `{"command":"x"}`)), says("Done."))
	g := &guarded{tools: b.tools}
	b.deps.Tools = g
	return b, g
}

func recorded(records []contract.Record) string {
	var types []string
	for _, r := range records {
		types = append(types, r.Type)
	}
	return strings.Join(types, " ")
}

// A call that needs approval waits for the operator's answer, which decides whether it is made, and the model reads
// the error's code (T-CAT-04). The call is recorded once.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		decision contract.Decision
		want     string // in the result
		grants   []string
		records  string
	}{
		{"approved", contract.Decision{Verdict: contract.Approved}, `{"ok":true}`, []string{"", "one"}, "tool.completed"},
		{
			"denied",
			contract.Decision{Verdict: contract.Denied, Comment: "use make clean"},
			"approval_denied|use make clean",
			[]string{""},
			"tool.completed",
		},
		{
			"denied without a word",
			contract.Decision{Verdict: contract.Denied},
			"approval_denied|The operator denied the call.",
			[]string{""},
			"tool.completed",
		},
		{"expired", contract.Decision{Verdict: contract.Expired}, "approval_expired", []string{""}, "tool.completed"},
		{"anything else", contract.Decision{}, "approval_denied", []string{""}, "tool.completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, g := asking(t)
			b.sink.answer = func(context.Context, contract.ApprovalRequested) (contract.Decision, error) {
				return c.decision, nil
			}
			if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			if d := cmp.Diff(c.grants, g.grants); d != "" {
				t.Error(d)
			}
			asked, done := of[contract.ApprovalRequested](b.sink), of[contract.ToolFinished](b.sink)
			if len(asked) != 1 || asked[0].CallID != "c1" || asked[0].ID == "" || asked[0].Step != 1 ||
				asked[0].Subject.Command != `{"command":"x"}` ||
				recorded(asked[0].Audit) != "tool.called tool.approval.requested" {
				t.Errorf("asked %+v", asked)
			}
			if len(done) != 1 || recorded(done[0].Audit) != c.records {
				t.Errorf("finished %+v", done)
			}
			for want := range strings.SplitSeq(c.want, "|") {
				if !strings.Contains(done[0].Result.Content, want) {
					t.Errorf("%s: no %q", done[0].Result.Content, want)
				}
			}
			if !json.Valid([]byte(done[0].Result.Content)) || done[0].Result.IsError != strings.HasPrefix(c.want, "approval_") {
				t.Errorf("result %+v", done[0].Result)
			}
		})
	}
}

// A run that is cancelled while it waits for an operator makes no call, and the call's result says so. If the service
// stops, the question stays open.
func TestEndWhileAsked(t *testing.T) {
	for _, name := range []string{"cancelled", "handed over"} {
		synctest.Test(t, func(t *testing.T) {
			b, g := asking(t)
			stopping := make(chan struct{})
			b.deps.Stopping = stopping
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			fins := make(chan contract.Finished)
			go func() { fins <- b.run(ctx) }()
			synctest.Wait()
			if len(of[contract.ApprovalRequested](b.sink)) != 1 {
				t.Fatal("no operator was asked")
			}
			if name == "cancelled" {
				cancel()
			} else {
				close(stopping)
			}
			fin := <-fins
			done := of[contract.ToolFinished](b.sink)
			if name == "handed over" {
				if fin.Outcome != contract.HandedOver || len(done) != 0 || len(g.grants) != 1 || len(g.tools.kept) != 1 {
					t.Errorf("%+v: results %+v, kept %v", fin, done, g.tools.kept)
				}
				return
			}
			if len(done) != 1 || done[0].Err.Code.String() != name ||
				!strings.Contains(done[0].Result.Content, "was not made") || len(g.grants) != 1 {
				t.Errorf("%s: %+v", name, done)
			}
		})
	}
}

// A call with a different question each time is refused in the end. A granted call that is lost is recorded once and
// not repeated.
func TestApprovalGoesWrong(t *testing.T) {
	t.Parallel()
	b, g := asking(t)
	g.vary = true
	b.sink.answer = func(context.Context, contract.ApprovalRequested) (contract.Decision, error) {
		return contract.Decision{Verdict: contract.Approved}, nil
	}
	b.run(t.Context())
	if done := of[contract.ToolFinished](b.sink); len(of[contract.ApprovalRequested](b.sink)) != maxQuestions ||
		done[0].Err.Code != fault.ApprovalRequired {
		t.Errorf("%d questions, %+v", len(of[contract.ApprovalRequested](b.sink)), done)
	}
	b, g = asking(t)
	g.lost = true
	b.sink.answer = func(context.Context, contract.ApprovalRequested) (contract.Decision, error) {
		return contract.Decision{Verdict: contract.Approved}, nil
	}
	b.run(t.Context())
	if done := of[contract.ToolFinished](b.sink); len(g.grants) != 2 || done[0].Err.Code != fault.Unavailable ||
		recorded(done[0].Audit) != "tool.completed" {
		t.Errorf("%+v", done)
	}
}

// An unattended run is announced to the tool runner as a job (T-CAT-03, T-CAT-05).
func TestJob(t *testing.T) {
	t.Parallel()
	b := newBench(t, wants(call("c1", "file.read", "{}")), says("Done."))
	b.start.Agent = &compile.Agent{
		Path: "primary", Model: "smart", PromptPath: "prompts/primary.md", Tools: []string{"file.read"},
	}
	b.start.Job = &contract.Job{Tools: []string{"file.write"}}
	b.run(t.Context())
	if job := b.tools.seen[0].Context.Job; job == nil || !cmp.Equal(job.Tools, []string{"file.write"}) {
		t.Errorf("job %+v", job)
	}
}
