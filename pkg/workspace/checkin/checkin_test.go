package checkin_test

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/workspace/checkin"
	"kaged.dev/pkg/workspace/ignore"
)

// repository is a work tree with configuration of its own alone.
type repository struct {
	t    testing.TB
	root string
}

func newRepository(t testing.TB, root string) repository {
	t.Helper()
	r := repository{t, root}
	r.git("init", "-q")
	r.git("config", "core.autocrlf", "false")
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"HOME="+r.root, "XDG_CONFIG_HOME="+r.root)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		r.t.Fatalf("git %v: %v: %s", args, err, exit.Stderr)
	}
	return string(out)
}

func (r repository) write(name, text string) {
	r.t.Helper()
	at := filepath.Join(r.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		r.t.Fatal(err)
	}
}

func (r repository) rules() *checkin.Rules {
	top, _, common := ignore.Repository(r.root)
	environment := map[string]string{
		"HOME": r.root, "XDG_CONFIG_HOME": r.root, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
	}
	return checkin.Open(top, common, ignore.LoadUser(func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}))
}

// For any attributes and configuration the package computes the content that git stores.
func TestStoredAsGitDoes(t *testing.T) {
	t.Parallel()
	contents := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "line\n", "line\r\n", "\r", "\r\r\n", "\x00", "\x01", "\x1a", "\t\x7f",
		"$Id$", "$Id: x $", "$Id: y\n$", "é\n",
	}), 0, 6)
	attributes := rapid.SliceOfN(rapid.SampledFrom([]string{
		"text", "-text", "!text", "text=auto", "eol=lf", "eol=crlf", "crlf", "-crlf", "crlf=input", "binary", "-binary",
		"ident",
		"mine", "!mine", "text=odd", "working-tree-encoding=UTF-8", "-bad=name", "eol",
	}), 0, 3)
	patterns := rapid.SampledFrom([]string{
		"*", "*.txt", "a*", "/a*", "sub/*", "sub/**", "**/a.txt", "sub/", `"a.txt"`, "!a.txt", "a?txt",
		"sub/deep/*.bin", "deep",
		"[ab]*", "# *", "[attr]mine", "[attr]binary",
	})
	folders := []string{"", "sub/", "sub/deep/"}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		r := newRepository(t, dir)
		now := map[string]string{}
		before := map[string]string{}
		for _, folder := range folders {
			for _, name := range []string{"a.txt", "b.txt", "c.bin", "a"} {
				before[folder+name] = strings.Join(contents.Draw(rt, "before "+folder+name), "")
				now[folder+name] = strings.Join(contents.Draw(rt, "now "+folder+name), "")
				r.write(folder+name, before[folder+name])
			}
		}
		r.git("add", "-A")
		for _, file := range []string{
			".gitattributes", "sub/.gitattributes", "sub/deep/.gitattributes", ".git/info/attributes",
		} {
			var lines strings.Builder
			for range rapid.IntRange(0, 3).Draw(rt, "lines") {
				fmt.Fprintln(&lines, patterns.Draw(rt, "pattern"), strings.Join(attributes.Draw(rt, "attributes"), " "))
			}
			r.write(file, lines.String())
		}
		r.git("config", "core.autocrlf", rapid.SampledFrom([]string{"true", "input", "false"}).Draw(rt, "autocrlf"))
		for name, text := range now {
			r.write(name, text)
		}
		r.git("add", "-A")
		stored := map[string]string{}
		for line := range strings.Lines(r.git("ls-files", "-s")) {
			meta, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
			stored[name] = strings.Fields(meta)[1]
		}
		rules := r.rules()
		for name, text := range now {
			got := rules.For(name).Apply([]byte(text), []byte(before[name]))
			hash := fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(got), got)))
			if hash != stored[name] {
				rt.Errorf("%s: %q becomes %q, git has %q\n%s", name, text, got, r.git("cat-file", "blob", stored[name]),
					r.git("check-attr", "-a", name))
			}
		}
	})
}

// A file in another encoding is compared in UTF-8; one that is not in it is left alone.
func TestEncodings(t *testing.T) {
	t.Parallel()
	r := newRepository(t, t.TempDir())
	r.write(".gitattributes", "*.16 text working-tree-encoding=UTF-16\n*.none working-tree-encoding=no-such\n"+
		"*.1 working-tree-encoding=ISO-8859-1\n")
	rules := r.rules()
	for _, c := range []struct{ name, content, want string }{
		{"a.16", "\xfe\xff\x00h\x00\xe9\x00\r\x00\n", "hé\n"},
		{"b.16", "\xff\xfeh\x00\n\x00", "h\n"},
		{"a.1", "h\xe9", "hé"},
		{"a.none", "h\xe9", "h\xe9"},
	} {
		if got := string(rules.For(c.name).Apply([]byte(c.content), nil)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A driver is named if git would run it, and git-lfs is known without any configuration.
func TestDrivers(t *testing.T) {
	t.Parallel()
	r := newRepository(t, t.TempDir())
	r.write(".gitattributes", "*.a filter=mine\n*.b filter=other\n*.c -filter\n*.bin filter=lfs -text\n")
	r.git("config", "filter.mine.clean", "touch /ran")
	rules := r.rules()
	for name, want := range map[string]checkin.Conversion{"x.a": {Driver: "mine"}, "x.b": {}, "x.c": {}} {
		if got := rules.For(name); got != want || got.None() != (want.Driver == "") {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if got := rules.For("x.bin"); !got.LFS || got.Driver != "" || got.None() {
		t.Errorf("lfs: %+v", got)
	}
	sum := strings.Repeat("0f", 32)
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + sum + "\nsize 12\n"
	if p, ok := checkin.PointerOf([]byte(pointer)); !ok || p != (checkin.Pointer{SHA256: sum, Size: 12}) {
		t.Errorf("pointer: %+v, %v", p, ok)
	}
	for _, bad := range []string{
		"", pointer[1:], strings.Replace(pointer, "0f", "xx", 1), strings.Replace(pointer, "12", "many", 1),
		strings.Replace(pointer, "sha256:", "", 1), pointer + strings.Repeat("x", 2000),
	} {
		if p, ok := checkin.PointerOf([]byte(bad)); ok {
			t.Errorf("%q is read as %+v", bad, p)
		}
	}
}

// Any attributes and contents are read without a panic, in bounded time.
func FuzzAttributes(f *testing.F) {
	f.Add("* text\n", "a\r\n", "sub/a")
	f.Add("[attr]a a\n* a b\n[attr]b a b\n", "$Id: $", "a")
	f.Add("\"\\\n", "\r", "/")
	f.Add("a/ text\n/ text\n** eol=lf\n", "\r\n", "a//b")
	f.Fuzz(func(t *testing.T, attributes, content, name string) {
		r := repository{t, t.TempDir()}
		r.write(".gitattributes", attributes)
		if err := os.MkdirAll(filepath.Join(r.root, ".git"), 0o700); err != nil {
			t.Fatal(err)
		}
		user := ignore.LoadUser(func(string) (string, bool) { return "", false })
		c := checkin.Open(r.root, filepath.Join(r.root, ".git"), user).For(name)
		once := c.Apply([]byte(content), nil)
		stable := !strings.Contains(attributes, "encoding") && !strings.Contains(string(once), "\r")
		if got := c.Apply(once, once); stable && string(got) != string(once) {
			t.Errorf("%q becomes %q and then %q", content, once, got)
		}
	})
}

// Of a file with too many rules or attributes the first ones count, and of folders with too many rules together the
// first that are asked for; the rules say that they are cut.
func TestBoundsOfAttributes(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("none "+strings.Repeat("a ", 50)+"\n", 800)
	for name, c := range map[string]struct {
		files map[string]string
		cut   bool
	}{
		"few":             {map[string]string{".gitattributes": strings.Repeat("none a\n", 9_000)}, false},
		"many rules":      {map[string]string{".gitattributes": strings.Repeat("none\n", 20_000)}, true},
		"many attributes": {map[string]string{".gitattributes": strings.Repeat(filler, 2)}, true},
		"many macros":     {map[string]string{".gitattributes": strings.Repeat("[attr]a b\n", 20_000)}, true},
		"some folders":    {map[string]string{"0/.gitattributes": filler, "1/.gitattributes": filler}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t, t.TempDir())
			for name, text := range c.files {
				r.write(name, "* ident\n"+text)
			}
			rules := r.rules()
			for _, name := range []string{"0/file", "1/file"} {
				if rules.For(name).None() {
					t.Errorf("%s has no conversion", name)
				}
			}
			if rules.Cut() != c.cut {
				t.Errorf("cut %v", rules.Cut())
			}
		})
	}
	t.Run("many folders", func(t *testing.T) {
		t.Parallel()
		r := newRepository(t, t.TempDir())
		rules := r.rules()
		var converted int
		for i := range 20 {
			r.write(fmt.Sprintf("%d/.gitattributes", i), "* ident\n"+filler)
			if !rules.For(fmt.Sprintf("%d/file", i)).None() {
				converted++
			}
		}
		if converted < 5 || converted == 20 || !rules.Cut() {
			t.Errorf("%d folders have a conversion, cut %v", converted, rules.Cut())
		}
	})
}
