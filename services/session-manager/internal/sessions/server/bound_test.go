package server

import (
	"bytes"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/rpc"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

func said(text string) llm.Block { return llm.Block{Text: &llm.Text{Text: text}} }

func called(id, input string) llm.Block {
	return llm.Block{Call: &llm.ToolCall{ID: id, Name: "file.write", Input: input}}
}

func answered(id, output string) llm.Block {
	return llm.Block{Result: &llm.ToolResult{CallID: id, Name: "file.write", Content: output}}
}

// shortened reports whether a text of the part ends with the ellipsis, or its input is a string.
func shortened(p *apiv1.MessagePart) bool {
	return bytes.HasPrefix(p.GetInput(), []byte(`"`)) ||
		slices.ContainsFunc([]string{p.GetText(), p.GetName(), p.GetOutput()},
			func(s string) bool { return strings.HasSuffix(s, ellipsis) })
}

// numbers returns a JSON array of n+1 small numbers.
func numbers(n int) string { return "[" + strings.Repeat("0,", n) + "0]" }

// For any texts of models and tools, an answer fits into one gRPC message: short texts are complete, long ones are
// shortened and end with the ellipsis.
func TestAnswersFit(t *testing.T) {
	long := strings.Repeat("ö", 9<<20/2)
	many := slices.Repeat([]llm.Block{called("c", "[]"), answered("c", "ok")}, 150_000)
	for name, blocks := range map[string][]llm.Block{
		"two long texts":    {said(long), said(long)},
		"a list of numbers": {called("c", numbers(7<<20)), answered("c", "ok")},
		"lists of numbers": {
			called("c", numbers(2<<20)), answered("c", "ok"), called("d", numbers(2<<20)), called("e", numbers(2<<20)),
		},
		"long input and output":  {called("c", `"`+long+`"`), answered("c", long)},
		"a long name and id":     {called(long, "{}"), answered(long, "ok"), {Call: &llm.ToolCall{Name: long}}},
		"a result without call":  {answered("c", long+long)},
		"more parts than fit":    many,
		"long thinking and text": {{Thinking: &llm.Thinking{Text: long}}, said(long), said("short")},
	} {
		content := ""
		for _, b := range blocks {
			if b.Text != nil {
				content += b.Text.Text
			}
		}
		short := record.Message{ID: "short", Content: "Hi."}
		short.Blocks = []llm.Block{said("Hi."), called("s", `{"a":[1,2]}`), answered("s", "ok")}
		want := message(short, math.MaxInt)
		large := record.Message{
			ID: "large", Content: content, Blocks: blocks, Metadata: &transcript.Metadata{ErrorMessage: long},
		}
		list := messages([]record.Message{short, large, large})
		if n := proto.Size(&apiv1.ListMessagesResponse{Items: list}); n > rpc.MaxMessage {
			t.Errorf("%s: a list takes %d bytes", name, n)
		}
		if d := cmp.Diff(want, list[0], protocmp.Transform()); d != "" {
			t.Errorf("%s: a short message among long ones: %s", name, d)
		}
		if !slices.ContainsFunc(list[1].GetParts(), shortened) {
			t.Errorf("%s: shortened without a word", name)
		}
		steps := []transcript.Step{{Turn: transcript.Turn{Turn: contract.Turn{Step: 1, Blocks: []llm.Block{said("Hi.")}}}}}
		for _, b := range blocks {
			turn := transcript.Step{Turn: transcript.Turn{Turn: contract.Turn{Blocks: []llm.Block{b}}}}
			if b.Result != nil {
				turn.Blocks, turn.Results = []llm.Block{called(b.Result.CallID, numbers(1<<20))}, []llm.ToolResult{*b.Result}
			}
			if steps = append(steps, turn); len(steps) == 5 {
				break
			}
		}
		r := run(sessions.RunDetail{Steps: steps})
		first := r.GetSteps()[0].GetParts()[0].GetText()
		if n := proto.Size(&apiv1.GetRunResponse{Run: r}); n > rpc.MaxMessage || first != "Hi." {
			t.Errorf("%s: a run takes %d bytes and begins with %.200q", name, n, first)
		}
	}
}

// A text that fits is complete.
func TestAnswersAreWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3<<19)
	blocks := []llm.Block{
		said(text), {Thinking: &llm.Thinking{Text: text}}, called("c", `{"a":"`+text+`"}`), answered("c", text),
	}
	got := messages([]record.Message{{Content: text, Blocks: blocks}})[0]
	if got.GetContent() != text || len(got.GetParts()) != 4 || got.GetParts()[0].GetText() != text ||
		got.GetParts()[1].GetText() != text ||
		string(got.GetParts()[2].GetInput()) != `{"a":"`+text+`"}` || got.GetParts()[3].GetOutput() != text ||
		!bytes.Equal(got.GetParts()[3].GetInput(), got.GetParts()[2].GetInput()) {
		t.Errorf("a message of %d bytes is not whole", proto.Size(got))
	}
}

// Converting a large input allocates at most four times its size.
func TestLargeInputs(t *testing.T) { // not parallel: it counts the allocations of the process
	list := []record.Message{{Blocks: []llm.Block{called("c", numbers(8<<20)), answered("c", "ok")}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	messages(list)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("an input of %d bytes took %d", 16<<20, got)
	}
}

// A page of approvals fits into one gRPC message; a single large approval stays complete.
func TestApprovalsFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3<<20)
	large := record.Approval{ID: "large", Subject: contract.Subject{
		Tool: "shell.bash", Command: long, Preview: long, Cwd: "./", Reasons: []string{"why", long},
		Paths: slices.Repeat([]string{"./a"}, 100_000),
	}}
	small := record.Approval{
		ID: "small", Subject: contract.Subject{Tool: "shell.bash", Command: "rm -r x", Reasons: []string{"It removes."}},
	}
	got := approvals([]record.Approval{small, large, large, large, small})
	if n := proto.Size(&apiv1.ListApprovalsResponse{Items: got}); n > rpc.MaxMessage {
		t.Errorf("a list takes %d bytes", n)
	}
	if d := cmp.Diff(approval(small), got[4], protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if s := got[1].GetSubject(); !strings.HasSuffix(s.GetCommand(), ellipsis) || s.GetReasons()[0] != "why" ||
		s.GetCwd() != "./" {
		t.Errorf("a long request is %.200v", s)
	}
	if d := cmp.Diff(approval(large), approvals([]record.Approval{large})[0], protocmp.Transform()); d != "" {
		t.Error("one alone is shortened")
	}
}

func TestLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sizes  []int
		budget int
		want   int
	}{
		{nil, 0, math.MaxInt},
		{[]int{3, 3}, 6, math.MaxInt},
		{[]int{3, 4}, 6, 3},
		{[]int{9, 1, 9}, 7, 3},
		{[]int{5}, 0, 0},
		{[]int{1, 5}, -1, 0},
	} {
		if got := level(c.sizes, c.budget); got != c.want {
			t.Errorf("level(%v, %d) = %d, want %d", c.sizes, c.budget, got, c.want)
		}
	}
}
