package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// tsserverRequest is the command with which typescript-language-server forwards a request to its tsserver.
const tsserverRequest = "typescript.tsserverRequest"

// tsserverKinds are the requests that together return all diagnostics of a file.
var tsserverKinds = []string{"syntacticDiagnosticsSync", "semanticDiagnosticsSync", "suggestionDiagnosticsSync"}

// asksTsserver reports whether the server forwards requests to a tsserver. The diagnostics that such a server publishes
// are not sufficient: one kind is published before the others are known, and a file without problems has no
// publication.
func (c *Client) asksTsserver() bool {
	var offers struct {
		Commands []string `json:"commands"`
	}
	return json.Unmarshal(c.provides["executeCommandProvider"], &offers) == nil &&
		slices.Contains(offers.Commands, tsserverRequest)
}

// tsserverDiagnostics requests the diagnostics of a document from the tsserver. It fails with a [Refusal] for a file
// that is in no project of the tsserver.
func (c *Client) tsserverDiagnostics(ctx context.Context, doc Doc) ([]Diagnostic, error) {
	type place struct {
		Line   uint32 `json:"line"`
		Offset uint32 `json:"offset"`
	}
	var list []Diagnostic
	for _, kind := range tsserverKinds {
		var answer struct {
			Success bool   `json:"success"`
			Message string `json:"message"`
			Body    []struct {
				Start    place           `json:"start"`
				End      place           `json:"end"`
				Text     string          `json:"text"`
				Code     json.RawMessage `json:"code"`
				Category string          `json:"category"`
				Source   string          `json:"source"`
			} `json:"body"`
		}
		params := map[string]any{
			"command": tsserverRequest, "arguments": []any{kind, map[string]string{"file": URI(doc.Path)}},
		}
		if err := c.Call(ctx, "workspace/executeCommand", params, &answer); err != nil {
			return nil, err
		}
		if !answer.Success {
			return nil, fmt.Errorf("the tsserver refuses %s: %.200s", kind, line(answer.Message))
		}
		for _, d := range answer.Body {
			severity := map[string]int{"error": 1, "warning": 2, "suggestion": 4}[d.Category]
			if d.Source == "" {
				d.Source = "typescript"
			}
			list = append(list, Diagnostic{
				Range: Range{
					Start: Position{Line: max(d.Start.Line, 1) - 1, Character: max(d.Start.Offset, 1) - 1},
					End:   Position{Line: max(d.End.Line, 1) - 1, Character: max(d.End.Offset, 1) - 1},
				},
				Severity: severity, Message: d.Text, Code: d.Code, Source: d.Source,
			})
		}
	}
	return bounded16(list), nil
}
