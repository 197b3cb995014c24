package tools_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/language"
)

// checker is a language server that finds an error in each line with BAD. If ask is set, ask answers instead.
type checker struct {
	b     *bench
	state string
	ask   func(context.Context) error
	asked []language.Query
}

func (c *checker) Ask(ctx context.Context, q language.Query) (language.Answer, error) {
	c.asked = append(c.asked, q)
	if c.ask != nil {
		if err := c.ask(ctx); err != nil {
			return language.Answer{}, err
		}
	}
	a := language.Answer{Completeness: language.Completeness{State: c.state}}
	for _, path := range q.Files {
		rel, _ := filepath.Rel(c.b.root, path)
		for i, line := range strings.Split(c.b.content(rel), "\n") {
			if strings.Contains(line, "BAD") {
				at := language.Location{Path: path, Start: language.Place{Line: i}}
				a.Diagnostics = append(a.Diagnostics, language.Diagnostic{At: at, Severity: 1, Message: line})
			}
		}
	}
	return a, nil
}

func (c *checker) List(context.Context, language.Filter) ([]contract.RunningLanguageServer, error) {
	return nil, nil
}

func (c *checker) Stop(context.Context, language.Filter) ([]contract.RunningLanguageServer, error) {
	return nil, nil
}

func (c *checker) Unload(
	context.Context, string, string,
) ([]contract.RunningLanguageServer, []contract.Record, error) {
	return nil, nil, nil
}

func (c *checker) End(context.Context) error { return nil }

// newChecked returns a bench with a checker as its language server.
func newChecked(t *testing.T, state string) (*bench, *checker) {
	c := &checker{state: state}
	c.b = newBench(t, func(b *bench) { b.languages, b.limits.AfterEdit = c, time.Second })
	c.b.from.KnowsFiles = true
	return c.b, c
}

// errorsOf runs a tool and returns the errors in its result, "absent" for a result without the field.
func (b *bench) errorsOf(name string, params in) string {
	b.t.Helper()
	o, err := b.do(b.t.Context(), name, params)
	if err != nil || o.Fault != nil {
		b.t.Fatalf("%s: %v, %v", name, err, o.Fault)
	}
	var result struct {
		Diagnostics *[]struct{ Path, Message, Severity string }
	}
	if err := json.Unmarshal([]byte(o.Result.Content), &result); err != nil {
		b.t.Fatal(err)
	}
	if result.Diagnostics == nil {
		return "absent"
	}
	var list []string
	for _, d := range *result.Diagnostics {
		list = append(list, d.Path+" "+d.Message)
	}
	return strings.Join(list, ", ")
}

// Each tool that changes files returns the errors of those files, and after the next change only the new ones. A moved
// error is not new, an error that disappeared and came back is new, and another agent gets all errors.
func TestAfterEdit(t *testing.T) {
	t.Parallel()
	b, c := newChecked(t, "ready")
	patch := "*** Begin Patch\n*** Update File: a.go\n@@\n-one\n+BAD 2\n*** Add File: d.go\n+BAD 3\n*** End Patch"
	rewrites := map[string]string{"var x = 1": "var x = BAD"}
	for _, tt := range []struct {
		tool   string
		params in
		want   string
	}{
		{"file.write", in{"path": "a.go", "content": "one\nBAD 1\n"}, "./a.go BAD 1"},
		{"edit.text", in{"path": "a.go", "old_string": "one\n", "new_string": "zero\none\n"}, ""},
		{"edit.patch", in{"patch": patch}, "./a.go BAD 2, ./d.go BAD 3"},
		{"edit.text", in{"path": "a.go", "old_string": "BAD 1", "new_string": "good"}, ""},
		{"edit.text", in{"path": "a.go", "old_string": "good", "new_string": "BAD 1"}, "./a.go BAD 1"},
		{"file.create", in{"path": "c.go", "content": "BAD 4\nBAD 4\n"}, "./c.go BAD 4, ./c.go BAD 4"},
		{"file.write", in{"path": "c.go", "content": "BAD 4\nBAD 4\nBAD 4\n"}, "./c.go BAD 4"},
		{"file.write", in{"path": "e.go", "content": "package p\n\nvar x = 1\n"}, ""},
		{"edit.ast", in{"path": "e.go", "rewrites": rewrites, "dry_run": false}, "./e.go var x = BAD"},
	} {
		if got := b.errorsOf(tt.tool, tt.params); got != tt.want {
			t.Errorf("%s %v: got %q, want %q", tt.tool, tt.params, got, tt.want)
		}
	}
	b.from.Agent = "primary.subagents.coder"
	if got := b.errorsOf("edit.text", in{"path": "d.go", "old_string": "3", "new_string": "3!"}); got != "./d.go BAD 3!" {
		t.Errorf("another agent is told %q", got)
	}
	for _, q := range c.asked {
		if q.Action != language.WarmDiagnostics || q.Severity != 1 {
			t.Errorf("asked for %s up to severity %d", q.Action, q.Severity)
		}
	}
}

// A result has no errors if no server runs, if the server is still loading or fails, or if the operator switched them
// off. The change has succeeded in each case.
func TestAfterEditWithoutAnswer(t *testing.T) {
	t.Parallel()
	write := in{"path": "a.go", "content": "BAD\n"}
	for name, change := range map[string]func(*bench, *checker){
		"no server":      func(_ *bench, c *checker) { c.state = "" },
		"one that loads": func(_ *bench, c *checker) { c.state = "indexing" },
		"one that crashed": func(_ *bench, c *checker) {
			c.ask = func(context.Context) error { return fault.New(fault.LspServerUnavailable, "x") }
		},
	} {
		b, c := newChecked(t, "ready")
		if change(b, c); b.errorsOf("file.write", write) != "absent" || b.content("a.go") != "BAD\n" {
			t.Errorf("%s: it says something, or the file is %q", name, b.content("a.go"))
		}
	}
	b, c := newChecked(t, "ready")
	if got := b.errorsOf("edit.ast", in{
		"path": ".", "rewrites": map[string]string{"a": "b"}, "lang": "go",
	}); got != "absent" || len(c.asked) > 0 {
		t.Errorf("a dry run: %q", got)
	}
	off := newBench(t, func(b *bench) { b.languages = c })
	if got := off.errorsOf("file.write", write); got != "absent" || len(c.asked) > 0 {
		t.Errorf("switched off: %q", got)
	}
}

// While a result waits for errors, its files are free for other calls. The result waits for at most a second.
func TestAfterEditHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, c := newChecked(t, "ready")
		first := true
		c.ask = func(ctx context.Context) error {
			if !first {
				return nil
			}
			first = false
			if got := b.errorsOf("file.write", in{"path": "a.go", "content": "BAD two\n"}); got != "./a.go BAD two" {
				t.Errorf("another call meanwhile: %q", got)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		if got := b.errorsOf("file.write", in{"path": "a.go", "content": "BAD one\n"}); got != "absent" {
			t.Errorf("got %q of a server that does not answer", got)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
