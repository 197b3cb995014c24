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

var responsesSuite = drivertest.Suite{
	Driver: openai.Name,
	New:    func(target llm.Target, opts wire.Options) llm.Driver { return openai.New(target, opts) },
}

var chatSuite = drivertest.Suite{
	Driver: openai.ChatName,
	New:    func(target llm.Target, opts wire.Options) llm.Driver { return openai.NewChat(target, opts) },
}

// The driver of the Responses API satisfies the contract of llm.Driver.
func TestResponsesDriver(t *testing.T) { responsesSuite.Run(t) }

// The driver of the Chat Completions API satisfies the contract of llm.Driver. Among others, a request without a
// limit has none (H-STREAM-LIM-02).
func TestChatDriver(t *testing.T) { chatSuite.Run(t) }

// Recorded streams of the Responses API are decoded correctly.
func TestResponsesStreams(t *testing.T) { responsesSuite.Fixtures(t, "testdata/responses") }

// Recorded streams of OpenAI and of compatible servers, with their deviations, are decoded correctly.
func TestChatStreams(t *testing.T) { chatSuite.Fixtures(t, "testdata/chat") }

// The drivers neither panic nor hang on any answer of a server.
func FuzzResponsesStream(f *testing.F) { responsesSuite.Fuzz(f, "testdata/responses") }

// See [FuzzResponsesStream].
func FuzzChatStream(f *testing.F) { chatSuite.Fuzz(f, "testdata/chat") }
