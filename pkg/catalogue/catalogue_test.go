package catalogue

import (
	"strings"
	"testing"
)

// A pattern names a tool by its name, an alias, or a glob. The name of a namespace that was merged into one tool names
// that tool.
func TestMatches(t *testing.T) {
	lsp := &Tool{Name: "code.lsp", Aliases: []Alias{{Name: "lsp.hover"}, {Name: "lsp"}}}
	debug := &Tool{Name: "debug"}
	read := &Tool{Name: "file.read", Aliases: []Alias{{Name: "read_file"}, {Name: "read"}}}
	issue := issueTool()
	for _, tt := range []struct {
		tool    *Tool
		pattern string
		want    Match
	}{
		{read, "file.read", ExactMatch},
		{read, "read_file", ExactMatch},
		{read, "file.*", GlobMatch},
		{read, "*", GlobMatch},
		{read, "file.rea?", GlobMatch},
		{read, "file", NoMatch},
		{read, "read*", NoMatch},
		{read, "search.*", NoMatch},
		{read, "", NoMatch},
		{lsp, "lsp.*", GlobMatch},
		{lsp, "code.*", GlobMatch},
		{issue, "kaged.issue", ExactMatch},
		{issue, "kaged.issue.*", GlobMatch},
		{issue, "kaged.issue.get", ActionMatch},
		{issue, "kaged.issue.c*", GlobMatch},
		{issue, "kaged.issue.update", NoMatch},
		{debug, "debug.*", GlobMatch},
		{debug, "debug", ExactMatch},
		{debug, "debu.*", NoMatch},
	} {
		if got := tt.tool.Matches(tt.pattern); got != tt.want {
			t.Errorf("%q names %s: %d, want %d", tt.pattern, tt.tool.Name, got, tt.want)
		}
	}
}

// A name has priority over a glob, and of equal switches the later decides.
func TestVerdict(t *testing.T) {
	read := &Tool{Name: "file.read"}
	on, off := func(p string) Switch { return Switch{p, true} }, func(p string) Switch { return Switch{p, false} }
	for i, tt := range []struct {
		switches []Switch
		off      bool
	}{
		{nil, false},
		{[]Switch{off("*")}, true},
		{[]Switch{off("*"), on("file.*")}, false},
		{[]Switch{on("file.*"), off("*")}, true},
		{[]Switch{on("file.read"), off("*")}, false},
		{[]Switch{off("file.read"), on("*")}, true},
		{[]Switch{off("shell.*")}, false},
	} {
		if got := Allowed(tt.switches, read, read.Units()) == nil; got != tt.off {
			t.Errorf("case %d: turned off %t", i, got)
		}
	}
}

func issueTool() *Tool {
	return &Tool{
		Name:   "kaged.issue",
		Schema: []byte(`{"properties":{"action":{"enum":["list","get","create"],"type":"string"}},"type":"object"}`),
		Aliases: []Alias{
			{Name: "kaged.issue.list", Action: "list"},
			{Name: "kaged.issue.get", Action: "get"},
			{Name: "kaged.issue.create", Action: "create"},
		},
	}
}

// The aliases that fix the actions of a tool switch them one by one; its name or a glob switches them together
// (T-ISSUE-02).
func TestActionsAreSwitchedOneByOne(t *testing.T) {
	t.Parallel()
	issue := issueTool()
	on, off := func(p string) Switch { return Switch{p, true} }, func(p string) Switch { return Switch{p, false} }
	for i, tt := range []struct {
		switches []Switch
		want     string
	}{
		{nil, "kaged.issue"},
		{[]Switch{off("kaged.issue")}, ""},
		{[]Switch{off("kaged.issue.*")}, ""},
		{[]Switch{off("kaged.issue.create")}, "kaged.issue.list kaged.issue.get"},
		{[]Switch{off("kaged.issue.create"), on("kaged.issue")}, "kaged.issue.list kaged.issue.get"},
		{[]Switch{on("kaged.issue.create"), off("kaged.issue"), off("*")}, "kaged.issue.create"},
		{[]Switch{off("kaged.issue.c*")}, "kaged.issue.list kaged.issue.get"},
	} {
		names := strings.Join(issue.NamesOf(Allowed(tt.switches, issue, issue.Units())), " ")
		if names != tt.want {
			t.Errorf("case %d: got %q, want %q", i, names, tt.want)
		}
	}
	if got := strings.Join(issue.Given([]string{"file.read", "kaged.issue.get"}), " "); got != "kaged.issue.get" {
		t.Errorf("given %q", got)
	}
	if got := len(issue.Given([]string{"kaged.issue"})); got != 3 {
		t.Errorf("the tool's name gives %d actions", got)
	}
	want := `{"properties":{"action":{"enum":["get"],"type":"string"}},"type":"object"}`
	if got := string(issue.SchemaOf([]string{"kaged.issue.get"})); got != want {
		t.Errorf("schema %s", got)
	}
}
