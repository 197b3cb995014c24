package rpc_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/testkit/certs"
)

// The CA of a running deployment is replaced without a restart: first both CAs in the bundles, then new certificates,
// then the new CA only. No call fails at any step, and afterwards a certificate of the old CA is refused.
func TestRotation(t *testing.T) {
	t.Parallel()
	log, before, after := slog.New(slog.DiscardHandler), certs.New(t), certs.New(t)
	serverFiles, clientFiles := before.Issue("session-manager"), before.Issue("gateway")
	load := func(files mtls.Files) *mtls.Material {
		m, err := mtls.Load(files, log)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	server, client := load(serverFiles), load(clientFiles)
	d := openDoorAs(t, before, server)
	step := func(what string) {
		t.Helper()
		server.Look()
		client.Look()
		for _, m := range []*mtls.Material{client, load(clientFiles)} {
			if err := call(t.Context(), d.dial(t, m, "session-manager"), "/grpc.health.v1.Health/Check"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	step("before")
	replace := func(to mtls.Files, from mtls.Files, cas ...string) {
		t.Helper()
		var bundle []byte
		for _, path := range cas {
			bundle = append(bundle, read(t, path)...)
		}
		for path, text := range map[string][]byte{to.CA: bundle, to.Cert: read(t, from.Cert), to.Key: read(t, from.Key)} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	newCA := after.Issue("gateway").CA
	oldCA := before.Dir + "/ca.crt"
	replace(serverFiles, serverFiles, oldCA, newCA)
	replace(clientFiles, clientFiles, oldCA, newCA)
	step("both CAs")
	replace(serverFiles, after.Issue("session-manager"), oldCA, newCA)
	step("the server's new certificate")
	replace(clientFiles, after.Issue("gateway"), oldCA, newCA)
	step("the client's new certificate")
	replace(serverFiles, serverFiles, newCA)
	replace(clientFiles, clientFiles, newCA)
	step("the new CA alone")
	stale := load(before.Issue("issue"))
	if err := call(t.Context(), d.dial(t, stale, "session-manager"), "/grpc.health.v1.Health/Check"); !errors.Is(err,
		fault.Unavailable) {
		t.Errorf("a certificate of the old CA: got %v, want unavailable", err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
