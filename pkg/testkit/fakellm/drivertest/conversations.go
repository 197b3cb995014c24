package drivertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/llm"
)

// oddTexts are texts that encoders have trouble with.
var oddTexts = []string{
	"", " ", "\n\t", "plain", "<b>&amp;</b>", "\u2028\u2029", "\xff\xfe", "quote \" and \\", "日本語 🙂",
	"\x00\x1f\x7f", strings.Repeat("long text \u00e9 ", 300), `{"a": [1, 2.50, "<"]}`, `{"a":1`, "{}", "null",
	`{"n":12345678901234567890}`, `{"x":"\ud800"}`, strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
}

// oddNames are names of tools, some of which have the same encoding.
var oddNames = []string{"file.read", "file__read", "file_read", "füle", strings.Repeat("n", 90), "code.lsp", ""}

// Conversations returns the requests of a conversation that grows, shrinks and changes as data says: user messages,
// turns with text, thinking and calls, results in any order, notes of kaged, dropped and pruned parts. opaque makes
// the thinking of a driver from a text. All requests share a memory.
func Conversations(data []byte, opaque func(text string) []*llm.Thinking) []llm.Request {
	const longest = 60
	g := &grower{data: data, opaque: opaque, memory: llm.NewMemories(1 << 20).New()}
	var requests []llm.Request
	for len(g.data) > 0 && len(requests) < longest {
		g.grow()
		req := g.req
		req.Model, req.Messages, req.Memory = "model", slices.Clone(g.req.Messages), g.memory
		requests = append(requests, req)
	}
	return requests
}

type grower struct {
	data   []byte
	opaque func(string) []*llm.Thinking
	memory *llm.Memory
	req    llm.Request
	calls  []llm.ToolCall // without a result
	made   int
}

// next returns a number below n.
func (g *grower) next(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return int(b) % n
}

// text returns an odd text, or bytes of the data.
func (g *grower) text() string {
	if i := g.next(len(oddTexts) + 4); i < len(oddTexts) {
		return oddTexts[i]
	}
	n := min(g.next(40), len(g.data))
	s := string(g.data[:n])
	g.data = g.data[n:]
	return s
}

func (g *grower) add(role llm.Role, blocks ...llm.Block) {
	g.req.Messages = append(g.req.Messages, llm.Message{Role: role, Blocks: blocks})
}

func (g *grower) grow() {
	n := len(g.req.Messages)
	switch g.next(10) {
	case 0:
		g.add(llm.RoleUser, llm.Block{Text: &llm.Text{Text: g.text()}})
	case 1, 2, 3:
		g.turn()
	case 4, 5:
		g.results()
	case 6:
		g.add(llm.RoleSystem, llm.Block{Text: &llm.Text{Text: g.text()}})
	case 7:
		g.req.Note = g.text()
	case 8: // the oldest messages make way
		g.req.Messages = slices.Clone(g.req.Messages[min(g.next(4), n):])
	default: // a result is pruned, or a message replaced
		if n == 0 {
			return
		}
		g.req.Messages = slices.Clone(g.req.Messages)
		m := &g.req.Messages[g.next(n)]
		m.Blocks = slices.Clone(m.Blocks)
		for i, b := range m.Blocks {
			if b.Result != nil {
				m.Blocks[i] = llm.Block{Result: &llm.ToolResult{CallID: b.Result.CallID, Name: b.Result.Name, Content: g.text()}}
			} else if b.Text != nil {
				m.Blocks[i] = llm.Block{Text: &llm.Text{Text: g.text()}}
			}
		}
	}
}

func (g *grower) turn() {
	var blocks []llm.Block
	for range 1 + g.next(4) {
		switch g.next(4) {
		case 0:
			blocks = append(blocks, llm.Block{Text: &llm.Text{Text: g.text()}})
		case 1:
			all := g.opaque(g.text())
			blocks = append(blocks, llm.Block{Thinking: all[g.next(len(all))]})
		default:
			g.made++
			call := llm.ToolCall{ID: fmt.Sprintf("call.%d", g.made), Name: oddNames[g.next(len(oddNames))], Input: g.text()}
			g.calls = append(g.calls, call)
			blocks = append(blocks, llm.Block{Call: &call})
		}
	}
	g.add(llm.RoleAssistant, blocks...)
}

func (g *grower) results() {
	var blocks []llm.Block
	for _, c := range g.calls {
		blocks = append(blocks, llm.Block{Result: &llm.ToolResult{
			CallID: c.ID, Name: c.Name, Content: g.text(), IsError: g.next(3) == 0,
		}})
	}
	g.calls = nil
	g.add(llm.RoleTool, blocks...)
}

// SameJSON fails a test if two texts are not the same JSON, or none.
func SameJSON(t *testing.T, i int, got, want []byte) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("request %d is no JSON: %v: %q", i, err, got)
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Fatalf("request %d of the SDK is no JSON: %v", i, err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Fatalf("request %d differs from the SDK's: %s", i, diff)
	}
}
