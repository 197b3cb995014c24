package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// An edit changes only its value; comments, order and spacing stay.
func TestSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string
		path   []string
		value  string
		after  string
	}{
		"a value": {
			"# top\n[models]\nfast =  \"a:b\"   # why\n# end\n",
			[]string{"models", "fast"},
			`"c:d"`,
			"# top\n[models]\nfast =  \"c:d\"   # why\n# end\n",
		},
		"a list over lines": {
			"[models]\nfast = [\n  \"a:b\", # one ]\n  \"c:d\",\n]\nslow = \"e:f\"\n",
			[]string{"models", "fast"},
			`"x:y"`,
			"[models]\nfast = \"x:y\"\nslow = \"e:f\"\n",
		},
		"a new key of a table": {
			"[models]\nfast = \"a:b\" # why\n\n# the next\n[limits]\nmax_steps = 3\n",
			[]string{"models", "slow"},
			`"c:d"`,
			"[models]\nfast = \"a:b\" # why\nslow = \"c:d\"\n\n# the next\n[limits]\nmax_steps = 3\n",
		},
		"a new table": {
			"operator_name = \"Ada\"",
			[]string{"providers", "my.one", "driver"},
			`"openai"`,
			"operator_name = \"Ada\"\n\n[providers.\"my.one\"]\ndriver = \"openai\"\n",
		},
		"an empty file":  {"", []string{"models", "a"}, `"p:m"`, "[models]\na = \"p:m\"\n"},
		"an empty table": {"[models]", []string{"models", "a"}, `"p:m"`, "[models]\na = \"p:m\"\n"},
		"a key of the top": {
			"# x\n[models]\na = \"p:m\"\n",
			[]string{"operator_name"},
			`"Ada"`,
			"operator_name = \"Ada\"\n# x\n[models]\na = \"p:m\"\n",
		},
		"quotes in the value": {
			"operator_name = \"a \\\" # b\" # c\n",
			[]string{"operator_name"},
			config.Quote("x \"y\"\n"),
			"operator_name = \"x \\\"y\\\"\\n\" # c\n",
		},
		"carriage returns": {
			"[models]\r\na = \"p:m\"\r\n", []string{"models", "a"}, `"q:n"`, "[models]\r\na = \"q:n\"\r\n",
		},
	} {
		got, err := config.Set([]byte(c.before), c.path, c.value)
		if err != nil || string(got) != c.after {
			t.Errorf("%s: got %q, %v\nwant %q", name, got, err, c.after)
		}
	}
}

// Set refuses a value that would break the file, and returns no result.
func TestSetRefusesWhatWouldBreak(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`"unclosed`, `"a:b"` + "\nfast = 1", `3`, ``} {
		if got, err := config.Set([]byte("[models]\nfast = \"a:b\"\n"), []string{"models", "fast"}, value); err == nil {
			t.Errorf("value %q gave %q", value, got)
		}
	}
}

// Edit changes a file in place, also behind a link, and keeps its mode; a new file is readable by its owner only.
// Concurrent edits are all kept, and a failed edit changes no byte.
func TestEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "kaged", "local.toml"), filepath.Join(dir, "link.toml")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := config.Edit(path, func(data []byte) ([]byte, error) {
				return config.Set(data, []string{"models", fmt.Sprintf("m%d", i)}, `"p:m"`)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := config.Load(path)
	if err != nil || len(f.Models) != 20 {
		t.Fatalf("%d of 20 edits are there, %v", len(f.Models), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a new file: %v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.Chmod(path, 0o640), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	replace := func(with string, fail error) error {
		return config.Edit(link, func([]byte) ([]byte, error) { return []byte(with), fail })
	}
	if err := replace("# new\n", nil); err != nil {
		t.Error(err)
	}
	if err := replace("# never\n", fault.BadRequest); !errors.Is(err, fault.BadRequest) {
		t.Errorf("a change that fails: %v", err)
	}
	data, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if string(data) != "# new\n" || errors.Join(err, statErr) != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("through a link: %q, %v, %v", data, info.Mode(), errors.Join(err, statErr))
	}
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("the link became %q, %v", target, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A key is parsed as TOML parses it; an invalid key, or several keys, are refused.
func TestKey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"models.fast":                        "models|fast",
		`default_tools."shell.bash".enabled`: "default_tools|shell.bash|enabled",
		"models.'a b'":                       "models|a b",
		"":                                   "", "a..b": "", "a b": "", "a = 1\nb": "", `"open`: "", "[a]\nb": "",
		"a # b": "",
	} {
		path, err := config.Key(text)
		if got := strings.Join(path, "|"); got != want || (err == nil) != (want != "") {
			t.Errorf("Key(%q) = %q, %v", text, got, err)
		}
	}
}

// Any valid text can be edited, and the edited value is read back.
func FuzzSet(f *testing.F) {
	f.Add(whole, "x")
	f.Add("[models]\n\"a b\" = '''x:y'''\n", "p:m")
	f.Fuzz(func(t *testing.T, text, operator string) {
		if !utf8.ValidString(operator) {
			return
		}
		if _, err := config.Parse("f", []byte(text)); err != nil {
			return
		}
		out, err := config.Set([]byte(text), []string{"operator_name"}, config.Quote(operator))
		if err != nil {
			t.Errorf("set %q in %q: %v", operator, text, err)
			return
		}
		file, err := config.Parse("f", out)
		if err != nil || file.OperatorName != operator {
			t.Errorf("set %q in %q, read %q from %q: %v", operator, text, file.OperatorName, out, err)
		}
	})
}
