package core

import "testing"

// A pattern names a tool as its name, as an alias, or as a glob; the namespace of what became one tool names that.
func TestMatches(t *testing.T) {
	lsp := &Tool{Name: "code.lsp", Aliases: []ToolAlias{{Name: "lsp.hover"}, {Name: "lsp"}}}
	debug := &Tool{Name: "debug"}
	read := &Tool{Name: "file.read", Aliases: []ToolAlias{{Name: "read_file"}, {Name: "read"}}}
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
		{debug, "debug.*", GlobMatch},
		{debug, "debug", ExactMatch},
		{debug, "debu.*", NoMatch},
	} {
		if got := tt.tool.Matches(tt.pattern); got != tt.want {
			t.Errorf("%q names %s: %d, want %d", tt.pattern, tt.tool.Name, got, tt.want)
		}
	}
}

// A name counts more than a glob, and of equals the later counts.
func TestVerdict(t *testing.T) {
	read := &Tool{Name: "file.read"}
	on, off := func(p string) ToolSwitch { return ToolSwitch{p, true} }, func(p string) ToolSwitch { return ToolSwitch{p, false} }
	for i, tt := range []struct {
		switches []ToolSwitch
		off      bool
	}{
		{nil, false},
		{[]ToolSwitch{off("*")}, true},
		{[]ToolSwitch{off("*"), on("file.*")}, false},
		{[]ToolSwitch{on("file.*"), off("*")}, true},
		{[]ToolSwitch{on("file.read"), off("*")}, false},
		{[]ToolSwitch{off("file.read"), on("*")}, true},
		{[]ToolSwitch{off("shell.*")}, false},
	} {
		if got := TurnedOff(tt.switches, read); got != tt.off {
			t.Errorf("case %d: turned off %t", i, got)
		}
	}
}
