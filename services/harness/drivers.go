package harness

import (
	"net/http"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/services/harness/internal/adapter/anthropic"
	"kaged.dev/services/harness/internal/adapter/google"
	"kaged.dev/services/harness/internal/adapter/models"
	"kaged.dev/services/harness/internal/adapter/openai"
	"kaged.dev/services/harness/internal/adapter/rehearsal"
)

// keptRehearsals is the number of parsed scripts that are kept.
const keptRehearsals = 32

// drivers returns the drivers by their names in configurations. They share the client's connections.
func drivers(cfg Config, client *http.Client) models.Models {
	opts := wire.Options{
		Client: client, Idle: cfg.ModelIdle.D(), Longest: cfg.ModelLongest.D(), MaxAnswer: cfg.MaxAnswerBytes,
		Large: wire.NewLarge(cfg.LargeAnswersBytes, cfg.MaxAnswerBytes),
	}
	return models.Models{
		anthropic.Name:  func(t llm.Target) (llm.Driver, error) { return anthropic.New(t, opts), nil },
		openai.Name:     func(t llm.Target) (llm.Driver, error) { return openai.New(t, opts), nil },
		google.Name:     func(t llm.Target) (llm.Driver, error) { return google.New(t, opts), nil },
		openai.ChatName: func(t llm.Target) (llm.Driver, error) { return openai.NewChat(t, opts), nil },
		// New parses the script, so the drivers are kept.
		rehearsal.Name: models.Remembered(keptRehearsals, func(t llm.Target) (llm.Driver, error) {
			return rehearsal.New(t), nil
		}),
	}
}
