package gateway_test

import (
	"testing"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/bustest"
	"kaged.dev/services/gateway"
)

// A gateway can be created and dropped, and can run and stop twice, with or without its dependencies.
func TestLifecycle(t *testing.T) {
	nats := bustest.Server(t)
	// the server starts its goroutines for the stream before the test counts goroutines
	nats.Frames(t, bus.FramesConfig{})
	for name, inProcess := range map[string]host.NATS{
		"with a bus": {InProcess: nats}, "without": {URL: "nats://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Lifecycle(t, gateway.Module, func() host.Options {
				opts := testkit.Options(t)
				opts.Listen, opts.NATS = "127.0.0.1:0", inProcess
				return opts
			})
		})
	}
}
