package stored

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	storagev1 "kaged.dev/proto/gen/kaged/sessionmanager/storage/v1"
)

func ptr[T any](v T) *T { return &v }

func turn() contract.Turn {
	return contract.Turn{
		Step: 3, Stop: llm.StopToolUse, Provider: "anthropic", Model: "m-1",
		Usage: llm.Usage{Input: 1, Output: 2, Reasoning: 3, CacheRead: 4, CacheWrite: 5},
		Stats: &llm.Stats{
			TTFT: ptr(1.5), Duration: 2.5, TPS: 3.5,
			Cost: &llm.Cost{Input: 1, Output: 2, Reasoning: 3, CacheRead: 4, CacheWrite: 5, Total: 15},
		},
		Blocks: []llm.Block{
			{Thinking: &llm.Thinking{Text: "Hm.", Opaque: []byte{1, 2}, Driver: "anthropic"}},
			{Text: &llm.Text{Text: "I look."}},
			{Call: &llm.ToolCall{ID: "c1", Name: "file.read", Input: `{"path":"a"}`}},
		},
	}
}

func results() []llm.ToolResult {
	return []llm.ToolResult{{CallID: "c1", Name: "file.read", Content: "text", IsError: true}}
}

func project() *compile.Project {
	return &compile.Project{
		Slug: "web", Description: "A site.", Version: 1, ToolsOff: []string{"shell.bash"},
		Root: &compile.Agent{
			Key: "primary", Path: "primary", Model: "smart", PromptPath: "p.md", Description: "d",
			MaxSteps: 7, MaxOutputTokens: 8,
			Tools: []string{"file.read"}, Aliases: map[string]string{"file.read": "read"},
			Writes: true, ResumeOnCrash: true, IncludeToolResults: true,
			Cage: &dsl.Cage{
				FS:       []dsl.Mount{{Mode: "rw", Path: "project:/", At: "project.yaml:4:5"}},
				ReadOnly: []dsl.Place{{Path: "project:/x"}},
				Net:      []string{"a:1"}, Seccomp: "default", Capabilities: []string{"shell"},
				Git: "read_only", State: "ephemeral",
				Env: map[string]string{"A": "b"}, Limits: dsl.Limits{Memory: 1, CPU: 0.5, PIDs: 2},
			},
			Children: []*compile.Agent{{Key: "a", Path: "primary.subagents.a", Model: "fast", PromptPath: "a.md"}},
		},
	}
}

// Old rows can be read, and new rows have the same bytes: the files in testdata are from before the storage
// messages existed.
func TestBytesOfBefore(t *testing.T) {
	t.Parallel()
	compiled, _, err := project().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func() ([]byte, error){
		"turn":     func() ([]byte, error) { return Turn(turn()) },
		"results":  func() ([]byte, error) { return Results(results()) },
		"snapshot": func() ([]byte, error) { return Snapshot(compiled) },
	} {
		if got, err := write(); err != nil || !bytes.Equal(got, before(t, name)) {
			t.Errorf("%s: got %x and %v, want %x", name, got, err, before(t, name))
		}
	}
	if got, err := FromTurn(before(t, "turn")); err != nil || !cmp.Equal(got, turn()) {
		t.Errorf("got the turn %v of before, want it as it was:\n%s", err, cmp.Diff(turn(), got))
	}
	if got, err := FromResults(before(t, "results")); err != nil || !cmp.Equal(got, results()) {
		t.Errorf("got the results %v of before, want them as they were:\n%s", err, cmp.Diff(results(), got))
	}
	wire, err := FromSnapshot(before(t, "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := compile.Decode(wire); err != nil || !cmp.Equal(got, project()) {
		t.Errorf("got the snapshot %v of before, want it as it was:\n%s", err, cmp.Diff(project(), got))
	}
}

func before(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".binpb")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Invalid bytes are refused.
func TestGarbage(t *testing.T) {
	t.Parallel()
	garbage := []byte("\xff")
	_, turn := FromTurn(garbage)
	_, results := FromResults(garbage)
	_, snapshot := FromSnapshot(garbage)
	for name, err := range map[string]error{"turn": turn, "results": results, "snapshot": snapshot} {
		if err == nil {
			t.Errorf("%s: got no error of bytes that are no message", name)
		}
	}
}

// Each storage message has the fields of its wire message, except reserved ones: a field on only one side would be
// lost or never be set.
func TestFieldsAreTheWires(t *testing.T) {
	t.Parallel()
	seen := names{}
	compare(t, new(storagev1.Turn), new(harnessv1.Turn), seen)
	compare(t, new(storagev1.Message), new(harnessv1.Message), seen)
	compare(t, new(storagev1.CompiledProject), new(harnessv1.CompiledProject), seen)
	if len(seen) < 15 {
		t.Errorf("got %d messages, want all that the three hold", len(seen))
	}
}

type names map[protoreflect.FullName]bool

func compare(t *testing.T, storage, wire proto.Message, seen names) {
	t.Helper()
	compareFields(t, storage.ProtoReflect().Descriptor(), wire.ProtoReflect().Descriptor(), seen)
}

func compareFields(t *testing.T, storage, wire protoreflect.MessageDescriptor, seen names) {
	t.Helper()
	if seen[storage.FullName()] {
		return
	}
	seen[storage.FullName()] = true
	for i := range wire.Fields().Len() {
		w := wire.Fields().Get(i)
		s := storage.Fields().ByNumber(w.Number())
		switch {
		case s == nil && !storage.ReservedNames().Has(w.Name()):
			t.Errorf("%s has no %s: store or reserve it", storage.FullName(), w.FullName())
		case s == nil:
		case s.Name() != w.Name() || s.Kind() != w.Kind() ||
			s.Cardinality() != w.Cardinality() || s.HasPresence() != w.HasPresence():
			t.Errorf("got %s as %s, want the field that %s is", s.FullName(), s.Kind(), w.FullName())
		case s.Message() != nil:
			compareFields(t, s.Message(), w.Message(), seen)
		case s.Enum() != nil:
			compareValues(t, s.Enum(), w.Enum())
		}
	}
	for i := range storage.Fields().Len() {
		if s := storage.Fields().Get(i); wire.Fields().ByNumber(s.Number()) == nil {
			t.Errorf("%s is on no wire: convert it in this package", s.FullName())
		}
	}
}

func compareValues(t *testing.T, storage, wire protoreflect.EnumDescriptor) {
	t.Helper()
	for i := range wire.Values().Len() {
		w := wire.Values().Get(i)
		if s := storage.Values().ByNumber(w.Number()); s == nil || s.Name() != w.Name() {
			t.Errorf("%s has no %s", storage.FullName(), w.FullName())
		}
	}
}
