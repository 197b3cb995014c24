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

// The driver keeps every promise of llm.Driver.
func TestDriver(t *testing.T) {
	newDriver := func(target llm.Target, opts wire.Options) llm.Driver { return anthropic.New(target, opts) }
	drivertest.Suite{Driver: anthropic.Name, New: newDriver}.Run(t)
}
