package database

import (
	"bytes"
	"encoding/json"
)

// JSON encodes v for a jsonb column. U+FFFD replaces NUL, which jsonb refuses, and invalid UTF-8.
func JSON(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	nul := []byte(`\u0000`)
	for i := 0; ; {
		j := bytes.Index(text[i:], nul)
		if j < 0 {
			return text, nil
		}
		at := i + j
		i = at + len(nul)
		if backslashes(text[:at])%2 == 0 {
			copy(text[at:], `\ufffd`)
		}
	}
}

// backslashes counts the backslashes at the end of text.
func backslashes(text []byte) int {
	return len(text) - len(bytes.TrimRight(text, `\`))
}
