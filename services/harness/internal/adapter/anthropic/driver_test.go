package anthropic_test

import (
	"testing"

	"go.uber.org/goleak"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
	"kaged.dev/services/harness/internal/adapter/anthropic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var suite = drivertest.Suite{
	Driver: anthropic.Name,
	New:    func(target llm.Target, opts wire.Options) llm.Driver { return anthropic.New(target, opts) },
}

// The driver satisfies the contract of llm.Driver. Among others: a limit of the answer reaches the provider, and no
// other limit does (H-STREAM-LIM-02, H-TEST-LIM-01); the statuses and messages of too long conversations are
// recognized (H-COMPACT-REACT-01); and each request names kaged in its User-Agent (H-SCOPE-03).
func TestDriver(t *testing.T) { suite.Run(t) }

// Recorded streams of Anthropic and of compatible servers, with their deviations, are decoded correctly.
func TestStreams(t *testing.T) { suite.Fixtures(t, "testdata") }

// The driver neither panics nor hangs on any answer of a server.
func FuzzStream(f *testing.F) { suite.Fuzz(f, "testdata") }
