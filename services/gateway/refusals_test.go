package gateway

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// Each invalid key of sign-in by a proxy is refused as bad_request, in one sentence with the key and what to do.
func TestSignInRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"short": "0123456789\n", "large": strings.Repeat("n", maxNonce+1), "good": strings.Repeat("n", minNonce),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const table = "[services.gateway]\n"
	for name, c := range map[string]struct{ text, variable, value, want string }{
		"an unknown mode": {
			text: table + "auth = \"oauth\"\n", want: `[services.gateway]: auth must be "loopback" or "sidecar", not "oauth".`,
		},
		"a nonce and a file": {
			text: table + "sidecar_nonce = \"n\"\nsidecar_nonce_file = \"good\"\n",
			want: "[services.gateway]: sidecar_nonce and sidecar_nonce_file are both set; unset one of them.",
		},
		"a missing file": {
			text: table + "sidecar_nonce_file = \"absent\"\n",
			want: "[services.gateway] sidecar_nonce_file: " + dir + "/absent cannot be read.",
		},
		"a folder": {
			text: table + "sidecar_nonce_file = \".\"\n",
			want: "[services.gateway] sidecar_nonce_file: " + dir + " is not a regular file of at most 4096 bytes.",
		},
		"a large file": {
			text: table + "sidecar_nonce_file = \"large\"\n",
			want: "[services.gateway] sidecar_nonce_file: " + dir + "/large is not a regular file of at most 4096 bytes.",
		},
		"a short nonce": {
			text: table + "sidecar_nonce_file = \"short\"\n",
			want: dir + "/short has a nonce of 10 bytes; make one with `openssl rand -hex 32`.",
		},
		"a good nonce": {text: table + "sidecar_nonce_file = \"good\"\n"},
		"no age": {
			text: table + "socket_max_age = \"0s\"\n", want: "[services.gateway]: socket_max_age must be more than 0.",
		},
		"an age that is no time": {
			text: table + "socket_max_age = \"quarter\"\n", want: `"quarter" is not a duration such as 90s or 10m`,
		},
		"an age without a unit": {
			text: table + "socket_max_age = 900\n", want: "[services.gateway]: socket_max_age: want a time with its unit",
		},
		"an age of the environment": {
			variable: "KAGED_SERVICES_GATEWAY_SOCKET_MAX_AGE", value: "15",
			want: `The environment variable KAGED_SERVICES_GATEWAY_SOCKET_MAX_AGE holds "15": "15" is not a duration`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, "local.toml")
			f, err := config.Parse(path, []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			cfg := DefaultConfig()
			err = f.Decode("gateway", &cfg, func(variable string) string {
				if variable == c.variable {
					return c.value
				}
				return ""
			})
			if err == nil {
				err = readNonce(&cfg, path)
			}
			if c.want == "" {
				if err != nil || len(cfg.SidecarNonce) != minNonce {
					t.Errorf("got %q, %v", cfg.SidecarNonce, err)
				}
				return
			}
			if !errors.Is(err, fault.BadRequest) || !strings.Contains(fault.From(err).Msg, c.want) {
				t.Errorf("got  %v\nwant bad_request with %s", err, c.want)
			}
		})
	}
}

// A gateway of a shared deployment without a sign-in proxy does not start.
func TestASharedGatewayNeedsAProxy(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Auth = "loopback"
	_, err := New(cfg, Deps{
		Listen: config.DefaultListen, System: config.System{Enabled: true}, Log: slog.New(slog.DiscardHandler),
	})
	want := `[system] enabled needs a sign-in proxy: [services.gateway] auth must be "sidecar", not "loopback".`
	if !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant bad_request with %s", err, want)
	}
}
