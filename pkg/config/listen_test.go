package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// A service has one or several listen addresses, from the file or the environment; other values are refused.
func TestListen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"unix:/run/a.sock"`: "unix:/run/a.sock", `["unix:/run/a.sock", "0.0.0.0:7422"]`: "unix:/run/a.sock 0.0.0.0:7422",
		`""`: "", `[]`: "", `7422`: "refused", `["a:1", 2]`: "refused", `["a:1", "a:1"]`: "refused", `["a:1", ""]`: "refused",
	} {
		f, err := config.Parse("local.toml", []byte("[services.harness]\nlisten = "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		listen, _, err := f.Place("harness", func(string) string { return "" })
		got := strings.Join(listen, " ")
		if errors.Is(err, fault.BadRequest) {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	f := &config.File{}
	listen, _, err := f.Place("lsp-pool", func(k string) string {
		return map[string]string{"KAGED_SERVICES_LSP_POOL_LISTEN": "unix:/run/l.sock, 10.0.0.1:7426"}[k]
	})
	if want := []string{"unix:/run/l.sock", "10.0.0.1:7426"}; err != nil || !slices.Equal(listen, want) {
		t.Errorf("by the environment: got %q, %v, want %q", listen, err, want)
	}
}
