package compile

import (
	"errors"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Agents of a snapshot are equal after encoding and decoding.
func TestAgentRoundTrip(t *testing.T) {
	back := func(
		key, model string, steps, tokens uint16, tools []string, aliases map[string]string, resume, include bool,
	) bool {
		if len(tools) == 0 {
			tools = nil
		}
		want := &Agent{
			Key: key, Path: key + ".x", Model: model, PromptPath: key, Description: model, MaxSteps: int(steps),
			MaxOutputTokens: int(tokens), Tools: tools, Aliases: aliases, ResumeOnCrash: resume, IncludeToolResults: include,
		}
		want.Children = []*Agent{{Key: model}}
		return cmp.Equal(want, AgentFromProto(want.Proto()))
	}
	if err := quick.Check(back, nil); err != nil {
		t.Error(err)
	}
	if a, p := AgentFromProto((*Agent)(nil).Proto()), ProjectFromProto((*Project)(nil).Proto()); a != nil || p != nil {
		t.Errorf("the agent and the project of nil are %v and %v, want nil", a, p)
	}
}

// A snapshot is equal after encoding and decoding, and equal projects have equal bytes and hashes.
func TestEncode(t *testing.T) {
	yaml := project("  cage: {fs: [{mode: rw, path: 'project:/src'}], net: {allow: ['b:2', 'a:1']}}\n" +
		"  tools: {'*': {enabled: true}, read: {enabled: true}}\n  subagents:\n    a: {model: fast, system_prompt: " +
		"./p.md, max_steps: 3}\n")
	made, again := compileWith(t, yaml).Project, compileWith(t, yaml).Project
	encoded, hash, err := made.Encode()
	if err != nil {
		t.Fatal(err)
	}
	second, secondHash, err := again.Encode()
	if err != nil || string(second) != string(encoded) || secondHash != hash || len(hash) != 64 {
		t.Errorf("the second encoding has the hash %s and %v, want %s", secondHash, err, hash)
	}
	back, err := Decode(encoded)
	if d := cmp.Diff(made, back); d != "" || err != nil {
		t.Errorf("decoded: %v, -made +back:\n%s", err, d)
	}
	var paths []string
	for a := range back.Root.Agents {
		paths = append(paths, a.Path)
	}
	if got := strings.Join(paths, " "); got != "primary primary.subagents.a" {
		t.Errorf("the agents are %q", got)
	}
}

// Bytes that are not a snapshot, and text that is not UTF-8, are refused with internal.
func TestEncodeRefuses(t *testing.T) {
	if _, err := Decode([]byte("\xff")); !errors.Is(err, fault.Internal) {
		t.Errorf("garbage: got %v, want %s", err, fault.Internal)
	}
	if _, _, err := (&Project{Slug: "\xff"}).Encode(); !errors.Is(err, fault.Internal) {
		t.Errorf("a slug that is not UTF-8: got %v, want %s", err, fault.Internal)
	}
}

// An agent of a snapshot from before the field Writes counts as having a tool that writes.
func TestAgentWithoutWrites(t *testing.T) {
	no := false
	if !AgentFromProto(&harnessv1.AgentNode{}).Writes || AgentFromProto(&harnessv1.AgentNode{Writes: &no}).Writes {
		t.Error("got writes unset and false as one")
	}
}
