package catalogue

import "testing"

// A pattern names a tool as its name, as an alias, or as a glob; the namespace of what became one tool names that.
func TestMatches(t *testing.T) {
	lsp := &Tool{Name: "code.lsp", Aliases: []Alias{{Name: "lsp.hover"}, {Name: "lsp"}}}
	debug := &Tool{Name: "debug"}
	read := &Tool{Name: "file.read", Aliases: []Alias{{Name: "read_file"}, {Name: "read"}}}
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
		if got := TurnedOff(tt.switches, read); got != tt.off {
			t.Errorf("case %d: turned off %t", i, got)
		}
	}
}
