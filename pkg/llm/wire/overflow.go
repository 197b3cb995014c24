package wire

import (
	"net/http"
	"regexp"
	"strings"
)

// overflowForms match the sentences in which providers say that a conversation exceeds a model's context window. There
// is no common code; the comments name the providers.
var overflowForms = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`context[_ -]?length[_ -]?exceeded`,         // OpenAI, Azure, many others
	`exceeds? the (?:model'?s )?context window`, // OpenAI
	// OpenAI, Azure, OpenRouter, vLLM, Mistral, LiteLLM
	`maximum context length`,
	`prompt (?:is )?too long`, // Anthropic, Ollama, z.ai
	`request_too_large`,       // Anthropic
	// Anthropic: input length and max_tokens exceed context limit
	`exceed context limit`,
	`model_context_window_exceeded`,                                                 // z.ai
	`input is too long for requested model`,                                         // Bedrock
	`input token count.{0,40}exceeds the maximum`,                                   // Google
	`maximum prompt length is \d`,                                                   // xAI
	`reduce the length of the (?:messages|prompt|input)`,                            // Groq, vLLM
	`exceeds? the available context size`,                                           // llama.cpp
	`(?:greater|longer) than the (?:model'?s )?context length`,                      // LM Studio, Together, vLLM
	`context window (?:is )?exceed`,                                                 // LiteLLM, MiniMax
	`exceed(?:ed|s)? (?:the )?model(?:'s)? (?:token limit|maximum context)`,         // Kimi, LiteLLM
	`exceeds? (?:the )?(?:max(?:imum)? )?(?:allowed )?(?:context|input|max) length`, // Ollama, OpenRouter, z.ai
	`token count of \d+ exceeds the limit`,                                          // GitHub Copilot
	`range of input length should be`,                                               // DashScope
	`configured context size is`,                                                    // small local servers
	`token limit exceeded`,
}, "|"))

// overflows reports whether a refusal means that the conversation is too large. Rate limits also mention too many
// tokens, but have their own statuses.
func overflows(status int, kind, sentence string) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, statusOverloaded:
		return false
	case http.StatusRequestEntityTooLarge:
		return true
	}
	return overflowForms.MatchString(kind) || overflowForms.MatchString(sentence)
}
