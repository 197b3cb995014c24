package google_test

import (
	"testing"

	"go.uber.org/goleak"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
	"kaged.dev/services/harness/internal/adapter/google"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var suite = drivertest.Suite{
	Driver: google.Name,
	New:    func(target llm.Target, opts wire.Options) llm.Driver { return google.New(target, opts) },
}

// The driver satisfies the contract of llm.Driver.
func TestDriver(t *testing.T) { suite.Run(t) }

// Recorded streams of Google and of compatible servers, with their deviations, are decoded correctly.
func TestStreams(t *testing.T) { suite.Fixtures(t, "testdata") }

// The driver neither panics nor hangs on any stream.
func FuzzStream(f *testing.F) { suite.Fuzz(f, "testdata") }
