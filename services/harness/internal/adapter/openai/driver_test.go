package openai_test

import (
	"testing"

	"go.uber.org/goleak"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
	"kaged.dev/services/harness/internal/adapter/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The driver of the Responses API keeps every promise of llm.Driver.
func TestResponsesDriver(t *testing.T) {
	newDriver := func(target llm.Target, opts wire.Options) llm.Driver { return openai.New(target, opts) }
	drivertest.Suite{Driver: openai.Name, New: newDriver}.Run(t)
}

// The driver of the Chat Completions API keeps every promise of llm.Driver.
func TestChatDriver(t *testing.T) {
	newDriver := func(target llm.Target, opts wire.Options) llm.Driver { return openai.NewChat(target, opts) }
	drivertest.Suite{Driver: openai.ChatName, New: newDriver}.Run(t)
}
