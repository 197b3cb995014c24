package dsl_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/dsl"
)

// The reference has the current table of the protected names.
func TestProtectedTableIsCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/cage.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := dsl.WithProtectedTable(string(page))
	if err != nil || want != string(page) {
		t.Errorf("docs/reference/cage.md is stale (%v): run go generate ./pkg/dsl", err)
	}
}

// A name of a pattern is protected in every folder and spelling, and the report names its reader.
func TestProtectedPatterns(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a/mise.prod.toml": "mise", ".MISE.prod.local.toml": "mise", "x/mise/config.ci.toml": "mise", "mise.toml": "mise",
		"x/.miserc.toml": "mise", ".config/miserc.toml": "mise", "x/mise/conf.d": "mise", "miserc.toml": "", "conf.d": "",
		"mise..toml": "", "mise.toml.md": "", "config.ci.toml": "", "rust-toolchain.toml": "rustup", ".tool-versions": "asdf",
	} {
		part, is := dsl.ProtectedPart(path)
		if is != (want != "") || is && part != path {
			t.Errorf("%s: protected part %q, %v", path, part, is)
		}
		if got := dsl.ReaderOf(path); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s is read by %q, want %s", path, got, want)
		}
		if is && !dsl.MayBeProtected(path) {
			t.Errorf("%s cannot be protected", path)
		}
	}
}

// An agent in a cage cannot make a skill for the agents of its project, in no folder from which skills are read.
func TestSkillFoldersAreProtected(t *testing.T) {
	t.Parallel()
	for _, folder := range dsl.SkillFolders {
		name, _, _ := strings.Cut(folder, "/")
		i := slices.IndexFunc(dsl.ProtectedNames, func(p dsl.Protected) bool { return p.Name == name })
		if i < 0 || dsl.ProtectedNames[i].Stub == dsl.NoStub {
			t.Errorf("%s has no stub at the project's root while it is missing", name)
		}
	}
}

// Below a parent with git: read_only a child cannot have git: writable, has read_only if unset, and cannot be granted a
// repository's folder.
func TestNarrowGit(t *testing.T) {
	t.Parallel()
	all := []dsl.Mount{{Mode: "rw", Path: "project:/"}}
	for _, tt := range []struct {
		name, parent, child, want string
		fs                        []dsl.Mount
		excess                    string
	}{
		{name: "inherited", parent: "read_only", want: "read_only", fs: all},
		{name: "wider", parent: "read_only", child: "writable", fs: all, excess: "git"},
		{name: "narrower", parent: "writable", child: "read_only", want: "read_only", fs: all},
		{name: "absent in both", fs: all},
		{
			name: "a grant inside", parent: "read_only", fs: []dsl.Mount{{Mode: "rw", Path: "project:/.git/objects"}},
			excess: "fs[0]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, excess := dsl.Narrow(&dsl.Cage{FS: all, Git: tt.parent}, &dsl.Cage{FS: tt.fs, Git: tt.child})
			if tt.excess != "" {
				if len(excess) != 1 || excess[0].Field != tt.excess {
					t.Errorf("got excess %v, want one of %s", excess, tt.excess)
				}
				return
			}
			if len(excess) > 0 || got.Git != tt.want {
				t.Errorf("got %q and %v, want %q", got.Git, excess, tt.want)
			}
		})
	}
}

// A grant of a repository's folder together with git: read_only is an error of the project file.
func TestGitReadOnlyAndGrant(t *testing.T) {
	t.Parallel()
	text := "git: read_only\nfs:\n  - {mode: rw, path: .}\n  - {mode: rw, path: ./.git/objects}\n"
	if c, diags := dsl.ParseCage("cage.yaml", []byte(text)); c != nil || len(diags) != 1 {
		t.Errorf("got %v and %v, want one error", c, diags)
	}
	if c, diags := dsl.ParseCage("cage.yaml", []byte("git: read_only\nfs: [{mode: rw, path: .}]\n")); c == nil ||
		!c.GitReadOnly() ||
		len(diags) > 0 {
		t.Errorf("got %v and %v, want read_only", c, diags)
	}
}
