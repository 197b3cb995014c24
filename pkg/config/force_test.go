package config_test

import (
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
)

// Every key on the list of those without effect is found where it stands in a file, by its whole name; a file without them
// has none.
func TestNotInForce(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("local.toml", []byte("[limits]\nmax_steps = 3\nsessions_per_project = 2\nsessions_per_operator = 9\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range f.NotInForce() {
		got = append(got, d.Key)
		if !strings.HasPrefix(d.Message, d.Key) || !strings.Contains(d.Message, "not in force yet: ") || !strings.HasSuffix(d.Message, ".") {
			t.Errorf("%s is told of as %q", d.Key, d.Message)
		}
	}
	want := []string{"limits.sessions_per_project", "limits.sessions_per_operator"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	found := map[string]bool{}
	for _, key := range got {
		found[key[strings.LastIndexByte(key, '.')+1:]] = true
	}
	for _, d := range config.Dormant {
		if !found[d.Name] {
			t.Errorf("%s.%s is on the list and is not found in a file", d.Table, d.Name)
		}
	}
	if f, err = config.Parse("local.toml", []byte("[limits]\nmax_steps = 3\n")); err != nil || len(f.NotInForce()) > 0 {
		t.Errorf("a file without such keys: %v, %v", f.NotInForce(), err)
	}
}
