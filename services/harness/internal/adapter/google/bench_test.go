package google_test

import (
	"encoding/json"
	"testing"
)

// chunk is a chunk of the stream as a struct.
type chunk struct {
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text      string         `json:"text"`
				Thought   bool           `json:"thought"`
				Signature []byte         `json:"thoughtSignature"`
				Call      map[string]any `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	Usage map[string]any `json:"usageMetadata"`
}

// BenchmarkDecode measures the cost of a delta, beside the cost of decoding it into a struct. The package's
// documentation has the figures.
func BenchmarkDecode(b *testing.B) {
	suite.BenchmarkDecode(b, func(data []byte) error {
		var c chunk
		return json.Unmarshal(data, &c)
	})
}

// BenchmarkRequest measures the cost of a call with a long conversation.
func BenchmarkRequest(b *testing.B) { suite.BenchmarkRequest(b) }
