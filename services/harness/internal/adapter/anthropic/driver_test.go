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

// The driver keeps every promise of llm.Driver: among them, a bound on the answer reaches the provider, and no other
// bound does (H-STREAM-LIM-02, H-TEST-LIM-01), the sentences and statuses for too long conversations are known
// (H-COMPACT-REACT-01), and each request names kaged in its User-Agent (H-SCOPE-03).
func TestDriver(t *testing.T) { suite.Run(t) }

// Streams of Anthropic, and of servers that are compatible with it in their own ways, are read as they are meant.
func TestStreams(t *testing.T) { suite.Fixtures(t, "testdata") }

// For any answer of a server, the driver neither panics nor hangs.
func FuzzStream(f *testing.F) { suite.Fuzz(f, "testdata") }
