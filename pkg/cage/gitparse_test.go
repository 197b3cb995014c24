package cage

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// A configuration is parsed as git parses it: keys in any case, quotes, escapes, comments, continued lines.
func TestParseGitConfig(t *testing.T) {
	t.Parallel()
	got := parseGitConfig("\uFEFF[Core] hooksPath = a b  # c\n[include]\npath=\"x # y\" ; z\n\tpath = \\\n  "+
		"../k\r\n[includeIf \"gitdir:]\\\"x\"]path=q\n"+
		"[core.old]\nfsmonitor\n[ broken\n= 3\n[core]\nhookspath=last", wantedSetting)
	want := []setting{
		{"core.hookspath", "a b"},
		{"include.path", "x # y"},
		{"include.path", "../k"},
		{"includeif.path", "q"},
		{"core.fsmonitor", "true"},
		{"core.hookspath", "last"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Parsing any git configuration ends, at its end or at the size limit.
func FuzzParseGitConfig(f *testing.F) {
	f.Add("[core]\n\thooksPath = x\n")
	f.Add("[includeIf \"a\\\"b\"] path = \"\\t\\\n\"")
	f.Add("[a\"")
	f.Fuzz(func(t *testing.T, text string) {
		found := parseGitConfig(text, func(string) bool { return true })
		if len(found) > maxConfigValues {
			t.Errorf("%d settings", len(found))
		}
		for _, s := range found {
			if len(s.value) > len(text)+len("true") || strings.ContainsRune(s.key, '\n') {
				t.Errorf("%q", s)
			}
		}
	})
}

// Reading any git index ends, and returns no path longer than PATH_MAX.
func FuzzGitlinks(f *testing.F) {
	head := []byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01")
	entry := append(make([]byte, 24), 0, 0, 0xe0, 0)
	entry = append(append(entry, make([]byte, 12+20+2)...), "a/b\x00\x00\x00\x00\x00\x00\x00"...)
	f.Add(append(head, entry...), true)
	f.Add([]byte("DIRC\x00\x00\x00\x04\xff\xff\xff\xff"), false)
	f.Fuzz(func(t *testing.T, data []byte, long bool) {
		hash := 20
		if long {
			hash = 32
		}
		links, _, _ := gitlinks(bytes.NewReader(data), hash)
		for _, link := range links {
			if len(link) > maxIndexPath+1 || strings.ContainsRune(link, 0) {
				t.Errorf("%d bytes: %q", len(link), link)
			}
		}
	})
}
