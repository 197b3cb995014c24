package tools

import (
	"context"
	_ "embed"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed kaged_note.md
var kagedNoteText string

// maxNote is the maximum length of a note in characters.
const maxNote = 1000

type noteParams struct {
	Kind string     `json:"kind" enum:"decision,todo,done,failed" doc:"What the note is."`
	Text string     `json:"text" doc:"The note, at most 1000 characters."`
	Ref  schema.Int `json:"ref,omitempty" min:"1" doc:"For done: the number of the todo."`
}

// noteResult is completed by the run, which numbers the notes of the session. The number in a call without a run is 0.
type noteResult struct {
	Seq int64 `json:"seq" doc:"The number of the note."`
}

// kagedNote returns the tool for notes. The tool only checks and records notes; the session stores them.
func kagedNote(Deps) *tool.Entry {
	return tool.Define(tool.Spec[noteParams, noteResult]{
		Name: "kaged.note", Description: kagedNoteText, Category: tool.Read, DefaultRoot: true,
		Run: func(_ context.Context, call *tool.Call, p *noteParams) (noteResult, error) {
			text := strings.TrimSpace(p.Text)
			switch n := utf8.RuneCountInString(text); {
			case n == 0:
				return noteResult{}, fault.New(fault.InvalidParams, "text is empty; write the note there.").With("parameter",
					"text")
			case n > maxNote:
				return noteResult{}, fault.New(fault.InvalidParams, "text has %d characters and may have %d.", n, maxNote).
					With("parameter", "text")
			case p.Kind == "done" && p.Ref == 0:
				return noteResult{}, lacking("ref", p.Kind)
			}
			fields := map[string]any{"kind": p.Kind, "text": redact.Secrets(redact.Mask(text))}
			if p.Ref > 0 {
				fields["ref"] = int64(p.Ref)
			}
			call.Record(audit.NoteTaken, fields)
			return noteResult{}, nil
		},
	})
}
