package lsp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// editFiles, editCount and editBytes limit one workspace edit: its files, edits, and new text.
	editFiles = 2000
	editCount = 200_000
	editBytes = 64 << 20
)

// TextEdit replaces the text of a range.
type TextEdit struct {
	Range   Range  `json:"range"`
	NewText string `json:"newText"`
}

// Kind is the kind of an [Operation].
type Kind int

// The kinds.
const (
	EditFile Kind = iota + 1
	CreateFile
	RenameFile
	DeleteFile
)

// Operation is one part of a workspace edit.
type Operation struct {
	Kind Kind
	// Path is the absolute path of the file, To the new path of RenameFile.
	Path, To string
	// Edits are the edits of EditFile, in the server's unit.
	Edits []TextEdit
	// Version is the document version that the edits apply to, 0 without one.
	Version int32
}

// ParseWorkspaceEdit reads a WorkspaceEdit. Each element of documentChanges, or each file of changes, is one operation.
// It fails above the limits, for a URI that names no file, and for an unknown kind of operation.
func ParseWorkspaceEdit(raw json.RawMessage) ([]Operation, error) {
	if len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil
	}
	var edit struct {
		Changes         map[string][]TextEdit `json:"changes"`
		DocumentChanges []json.RawMessage     `json:"documentChanges"`
	}
	if err := json.Unmarshal(raw, &edit); err != nil {
		return nil, fmt.Errorf("the workspace edit cannot be read: %w", err)
	}
	var list []Operation
	if edit.DocumentChanges != nil {
		if len(edit.DocumentChanges) > editCount {
			return nil, fmt.Errorf("the workspace edit has %d changes; at most %d are taken", len(edit.DocumentChanges),
				editCount)
		}
		for _, raw := range edit.DocumentChanges {
			op, err := parseOperation(raw)
			if err != nil {
				return nil, err
			}
			list = append(list, op)
		}
	} else {
		for uri, edits := range edit.Changes {
			path, err := PathOf(uri)
			if err != nil {
				return nil, err
			}
			list = append(list, Operation{Kind: EditFile, Path: path, Edits: edits})
		}
		slices.SortFunc(list, func(a, b Operation) int { return cmp.Compare(a.Path, b.Path) })
	}
	return list, bounded(list)
}

// parseOperation reads one element of documentChanges.
func parseOperation(raw json.RawMessage) (Operation, error) {
	var change struct {
		Kind         string `json:"kind"`
		URI          string `json:"uri"`
		OldURI       string `json:"oldUri"`
		NewURI       string `json:"newUri"`
		TextDocument struct {
			URI     string `json:"uri"`
			Version *int32 `json:"version"`
		} `json:"textDocument"`
		Edits []TextEdit `json:"edits"`
	}
	if err := json.Unmarshal(raw, &change); err != nil {
		return Operation{}, fmt.Errorf("the workspace edit cannot be read: %w", err)
	}
	op := Operation{Edits: change.Edits}
	uri := change.URI
	switch change.Kind {
	case "":
		op.Kind, uri = EditFile, change.TextDocument.URI
		if change.TextDocument.Version != nil {
			op.Version = *change.TextDocument.Version
		}
	case "create":
		op.Kind = CreateFile
	case "delete":
		op.Kind = DeleteFile
	case "rename":
		op.Kind, uri = RenameFile, change.OldURI
		to, err := PathOf(change.NewURI)
		if err != nil {
			return op, err
		}
		op.To = to
	default:
		return op, fmt.Errorf("the workspace edit holds an operation %.40q", change.Kind)
	}
	path, err := PathOf(uri)
	op.Path = path
	return op, err
}

func bounded(list []Operation) error {
	files, count, size := map[string]bool{}, 0, 0
	for _, op := range list {
		files[op.Path] = true
		count += len(op.Edits)
		for _, e := range op.Edits {
			size += len(e.NewText)
		}
	}
	if len(files) > editFiles || count > editCount || size > editBytes {
		return fmt.Errorf("the workspace edit changes %d files in %d places with %d bytes; at most %d, %d and %d are taken",
			len(files), count, size, editFiles, editCount, editBytes)
	}
	return nil
}

// Apply returns the text with the edits; t itself is unchanged. All ranges refer to the text before the edits. Two
// insertions at one position are made in list order. Apply fails if edits overlap or one starts outside the text.
func (t *Text) Apply(edits []TextEdit, e Encoding) (string, error) {
	type span struct {
		start, end int
		text       string
	}
	spans := make([]span, len(edits))
	size := len(t.content)
	for i, edit := range edits {
		if edit.Range.End.before(edit.Range.Start) {
			return "", fmt.Errorf("edit %d ends before it starts", i+1)
		}
		if int64(edit.Range.Start.Line) > int64(len(t.starts)) {
			return "", fmt.Errorf("edit %d begins in line %d of %d", i+1, int64(edit.Range.Start.Line)+1, len(t.starts))
		}
		spans[i] = span{t.Offset(edit.Range.Start, e), t.Offset(edit.Range.End, e), edit.NewText}
		size += len(edit.NewText)
	}
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end,
			b.end))
	})
	var b strings.Builder
	b.Grow(size)
	at := 0
	for _, s := range spans {
		if s.start < at {
			return "", fmt.Errorf("two edits overlap at byte %d", s.start)
		}
		b.WriteString(t.content[at:s.start])
		b.WriteString(s.text)
		at = s.end
	}
	b.WriteString(t.content[at:])
	return b.String(), nil
}

// URI returns the uri of an absolute path.
func URI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// PathOf returns the absolute path of a file's uri. It fails for every other uri.
func PathOf(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) ||
		strings.ContainsRune(u.Path, 0) {
		return "", fmt.Errorf("%.200q names no file", uri)
	}
	return filepath.Clean(u.Path), nil
}
