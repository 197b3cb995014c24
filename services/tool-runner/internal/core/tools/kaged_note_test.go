package tools_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
)

// A note is checked, recorded without secrets, and answered with a number that the run sets.
func TestNotes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var result struct{ Seq *int64 }
	o := b.ok("kaged.note", in{"kind": "decision", "text": " Use sk-abcdefghijklmnopqrstuvwxyz0123 for tests. "}, &result)
	if result.Seq == nil || *result.Seq != 0 {
		t.Errorf("answer %+v", result)
	}
	p := b.record(o, "kaged.note")
	if text := p["text"].(string); strings.Contains(text, "abcdefghij") || !strings.HasPrefix(text, "Use ") ||
		p["kind"] != "decision" {
		t.Errorf("recorded %v", p)
	}
	done := b.record(b.ok("kaged.note", in{"kind": "done", "text": "it", "ref": 3}, nil), "kaged.note")
	if done["ref"] != int64(3) {
		t.Errorf("recorded %v", done)
	}
	b.fails(fault.InvalidParams, "kaged.note", in{"kind": "done", "text": "it"})
	b.fails(fault.InvalidParams, "kaged.note", in{"kind": "todo", "text": " \n"})
	b.fails(fault.InvalidParams, "kaged.note", in{"kind": "todo", "text": strings.Repeat("ü", 1001)})
	b.fails(fault.InvalidParams, "kaged.note", in{"kind": "other", "text": "x"})
}

// Records of files have the hash of the content that the agent read or wrote.
func TestRecordsHaveHashes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const sumOfA, sumOfB = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7", // a\n
		"0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f" // b\n
	o := b.ok("file.write", in{"path": "a.txt", "content": "a\n"}, nil)
	if p := b.record(o, "file.written"); p["sha256"] != sumOfA {
		t.Errorf("written %v", p)
	}
	o = b.ok("file.read", in{"path": "a.txt"}, nil)
	if p := b.record(o, "file.read"); p["sha256"] != sumOfA || p["path"] != "./a.txt" {
		t.Errorf("read %v", p)
	}
	o = b.ok("edit.text", in{"path": "a.txt", "old_string": "a", "new_string": "b"}, nil)
	if p := b.record(o, "file.edited"); p["sha256"] != sumOfB {
		t.Errorf("edited %v", p)
	}
	o = b.ok("edit.patch", in{"patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n-b\n+a\n*** End Patch\n"}, nil)
	if p := b.record(o, "file.edited"); p["sha256"] != sumOfA {
		t.Errorf("patched %v", p)
	}
}
