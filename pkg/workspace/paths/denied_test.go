package paths_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
)

// Denied paths are denied for any name of the project's folder, through links, and before they
// exist.
func TestDenied(t *testing.T) {
	t.Parallel()
	real, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, dir := range []string{
		"usr/home/me/.ssh", "x/plain/secrets", "x/my [work]/secrets", "x/a{b}c/secrets", "x/st*r?/secrets", "elsewhere",
	} {
		must(t, os.MkdirAll(filepath.Join(real, dir), 0o755))
	}
	must(t, os.Symlink("usr/home", filepath.Join(real, "home")))
	home := filepath.Join(real, "home/me")
	for _, name := range []string{"plain", "my [work]", "a{b}c", "st*r?"} {
		project := filepath.Join(real, "x", name)
		must(t, os.Symlink("secrets", filepath.Join(project, "linked")))
		must(t, os.Symlink("../../elsewhere/later", filepath.Join(project, "dangling")))
		for rule, want := range map[string]struct{ denied, free []string }{
			"secrets":       {[]string{"secrets", "secrets/k", "linked/k", "linked"}, []string{"secrets2", "sub/secrets", "."}},
			"secrets/":      {[]string{"secrets", "secrets/k"}, []string{"secrets2"}},
			"secrets/**":    {[]string{"secrets", "secrets/k"}, []string{"secrets2"}},
			"secrets/*":     {[]string{"secrets/k", "secrets/d/k", "linked/k"}, []string{"secrets", "k"}},
			"linked/*":      {[]string{"secrets/k", "linked/k"}, []string{"secrets"}},
			"linked":        {[]string{"secrets/k", "linked/k"}, []string{"k"}},
			"dangling":      {[]string{"dangling", "../../elsewhere/later/k"}, []string{"../../elsewhere/k"}},
			".env":          {[]string{".env"}, []string{"sub/.env"}},
			"**/.env":       {[]string{".env", "sub/.env", "sub/.env/k"}, []string{"env", home + "/.env"}},
			"*.{key,pem}":   {[]string{"a.key", "a.pem/k"}, []string{"sub/a.key", "a.kez"}},
			"b[0-9]":        {[]string{"b1", "b[0-9]", "b[0-9]/k"}, []string{"b"}},
			`c\[x]`:         {[]string{"c[x]/k"}, []string{"cx"}},
			"new/../later":  {[]string{"later/k"}, []string{"new"}},
			"**":            {[]string{".", "a/b"}, []string{home}},
			".":             {[]string{".", "a/b"}, []string{home}},
			"~/.ssh":        {[]string{home + "/.ssh/id", real + "/usr/home/me/.ssh"}, []string{home + "/.sshx"}},
			"~/.ssh/*":      {[]string{home + "/.ssh/id", real + "/usr/home/me/.ssh/id"}, []string{home + "/.ssh"}},
			"~/.ssh/id_*":   {[]string{home + "/.ssh/id_rsa"}, []string{home + "/.ssh/known_hosts"}},
			"~/.aws":        {[]string{home + "/.aws", home + "/.aws/key", real + "/usr/home/me/.aws/key"}, []string{home}},
			"~/.new/*/k":    {[]string{home + "/.new/a/k"}, []string{home + "/.new/k"}},
			"~/*/**":        {[]string{home + "/.ssh", home + "/.ssh/id"}, []string{home}},
			"~":             {[]string{home, home + "/.ssh/id"}, []string{real + "/usr/home"}},
			"../*/secrets":  {[]string{"secrets/k", "../plain/secrets"}, []string{"k"}},
			real + "/x/*/k": {[]string{"k", "../plain/k"}, []string{"k2"}},
			project + "/s":  {[]string{"s/k"}, []string{"k"}},
			"/":             {[]string{".", home}, nil},
			"/**":           {[]string{".", home}, nil},
			// Check refuses it; unchecked, it must still deny.
			"{a":         {[]string{"secrets", "k"}, []string{home}},
			"deep/[z-/k": {[]string{"deep/k"}, []string{"k"}},
		} {
			space, err := paths.Open(project, paths.Rules{Allowed: []string{"/"}, Denied: []string{rule}, Home: home})
			must(t, err)
			for denied, names := range map[bool][]string{true: want.denied, false: want.free} {
				for _, asked := range names {
					_, err := space.Resolve("path", asked)
					if errors.Is(err, fault.CapabilityDenied) != denied || err != nil && !denied {
						t.Errorf("in %s with %s denied, %s: %v", name, rule, asked, err)
					}
				}
			}
			space.Close()
		}
	}
}

// Invalid rules are refused, and deny in full until they are mended.
func TestRulesAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules paths.Rules
		ok    bool
	}{
		{paths.Rules{}, true},
		{paths.Rules{
			Allowed: []string{"~/a", "/b [c"}, Denied: []string{"~", "~/x", "a", "**/.env", "{a,b}", "[a-z]", `a\{`},
			Home: "/home/me",
		}, true},
		{paths.Rules{Denied: []string{"**/{a"}, Home: "/home/me"}, false},
		{paths.Rules{Denied: []string{"[z-"}}, false},
		{paths.Rules{Denied: []string{"~/.ssh"}}, false},
		{paths.Rules{Denied: []string{"~"}}, false},
		{paths.Rules{Allowed: []string{"~/src"}}, false},
		{paths.Rules{Denied: []string{"~x", "a/~"}}, true},
	} {
		if err := c.rules.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, fault.BadRequest) {
			t.Errorf("%+v: %v", c.rules, err)
		}
	}
	_, space := project(t, paths.Rules{Denied: []string{"~/.ssh"}, Allowed: []string{"~"}})
	if _, err := space.Resolve("path", "a"); !errors.Is(err, fault.CapabilityDenied) {
		t.Error(err)
	}
}
