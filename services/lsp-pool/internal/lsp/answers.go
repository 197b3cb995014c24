package lsp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"kaged.dev/pkg/clip"
)

// Location is a range in a file.
type Location struct {
	Path  string
	Range Range
}

const (
	// locationCount and symbolCount limit one answer.
	locationCount = 10_000
	symbolCount   = 10_000
	// symbolDepth limits the nesting of an outline.
	symbolDepth = 64
)

// ParseLocations reads a Location, a list of them, or a list of LocationLinks. It leaves out locations outside files
// and those after the first locationCount ones, and returns their number.
func ParseLocations(raw json.RawMessage) ([]Location, int, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, 0, nil
	}
	type location struct {
		URI          string `json:"uri"`
		Range        Range  `json:"range"`
		TargetURI    string `json:"targetUri"`
		TargetRange  Range  `json:"targetSelectionRange"`
		TargetWholly Range  `json:"targetRange"`
	}
	var list []location
	if raw[0] == '{' {
		list = make([]location, 1)
		if err := json.Unmarshal(raw, &list[0]); err != nil {
			return nil, 0, fmt.Errorf("the locations cannot be read: %w", err)
		}
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return nil, 0, fmt.Errorf("the locations cannot be read: %w", err)
	}
	var places []Location
	left := 0
	seen := map[Location]bool{}
	for _, l := range list {
		at := Location{Range: l.Range}
		uri := l.URI
		if l.TargetURI != "" {
			uri, at.Range = l.TargetURI, l.TargetRange
		}
		path, err := PathOf(uri)
		if at.Path = path; err != nil || len(places) >= locationCount {
			left++
			continue
		}
		if !seen[at] {
			seen[at] = true
			places = append(places, at)
		}
	}
	return places, left, nil
}

// Hover is a server's text about a symbol. Content is its declaration, Documentation the rest.
type Hover struct {
	Content, Documentation string
	Range                  *Range
}

// ParseHover reads a Hover, nil for null.
func ParseHover(raw json.RawMessage) (*Hover, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var h struct {
		Contents json.RawMessage `json:"contents"`
		Range    *Range          `json:"range"`
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, fmt.Errorf("the hover cannot be read: %w", err)
	}
	content, documentation := "", ""
	if parts := marked(h.Contents, 0); len(parts) > 0 {
		content, documentation = split(strings.Join(parts, "\n\n"))
	}
	if content == "" && documentation == "" {
		return nil, nil
	}
	return &Hover{
		Content: clip.Bytes(content, answerText), Documentation: clip.Bytes(documentation, answerText),
		Range: h.Range,
	}, nil
}

// marked returns the texts of MarkupContent, of a MarkedString, or of a list of those. Code of a MarkedString is
// fenced.
func marked(raw json.RawMessage, depth int) []string {
	raw = bytes.TrimSpace(raw)
	switch {
	case bytes.HasPrefix(raw, []byte(`"`)):
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil
		}
		return []string{strings.ToValidUTF8(text, "\uFFFD")}
	case bytes.HasPrefix(raw, []byte("[")):
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil || depth > 0 {
			return nil
		}
		var texts []string
		for _, item := range list[:min(len(list), 100)] {
			texts = append(texts, marked(item, depth+1)...)
		}
		return texts
	}
	var content struct{ Kind, Language, Value string }
	if json.Unmarshal(raw, &content) != nil || content.Value == "" {
		return nil
	}
	value := strings.ToValidUTF8(content.Value, "\uFFFD")
	if content.Kind == "" && content.Language != "" {
		value = "```" + content.Language + "\n" + value + "\n```"
	}
	return []string{value}
}

// split separates the first paragraph of a markdown text from the rest, or its code if it begins with a fenced block.
func split(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "```") {
		if _, body, ok := strings.Cut(text, "\n"); ok {
			if code, after, ok := strings.Cut(body, "\n```"); ok {
				return strings.TrimSpace(code), strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(after), "---"))
			}
		}
	}
	first, rest, _ = strings.Cut(text, "\n\n")
	return strings.TrimSpace(first), strings.TrimSpace(rest)
}

// Symbol is a named part of a file, such as a function.
type Symbol struct {
	Name, Container string
	Kind            int
	Path            string
	Range           Range
}

// KindText returns the kind of a symbol as lower-case words.
func (s Symbol) KindText() string {
	if s.Kind < 1 || s.Kind > len(symbolKinds) {
		return "unknown"
	}
	return symbolKinds[s.Kind-1]
}

var symbolKinds = [...]string{
	"file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum", "interface",
	"function",
	"variable", "constant", "string", "number", "boolean", "array", "object", "key", "null", "enum member", "struct",
	"event", "operator",
	"type parameter",
}

type rawSymbol struct {
	Name           string      `json:"name"`
	Kind           int         `json:"kind"`
	ContainerName  string      `json:"containerName"`
	SelectionRange *Range      `json:"selectionRange"`
	Children       []rawSymbol `json:"children"`
	Location       *struct {
		URI   string `json:"uri"`
		Range Range  `json:"range"`
	} `json:"location"`
}

// ParseSymbols reads a list of DocumentSymbol, SymbolInformation or WorkspaceSymbol. Order is kept, and children follow
// their parent. path is the file of symbols without a location.
func ParseSymbols(raw json.RawMessage, path string) ([]Symbol, error) {
	var list []rawSymbol
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("the symbols cannot be read: %w", err)
	}
	var out []Symbol
	flatten(list, path, "", 0, &out)
	return out, nil
}

func flatten(list []rawSymbol, path, container string, depth int, out *[]Symbol) {
	for _, raw := range list {
		if len(*out) >= symbolCount || depth > symbolDepth {
			return
		}
		s := Symbol{Name: line(raw.Name), Kind: raw.Kind, Path: path, Container: container}
		if raw.ContainerName != "" {
			s.Container = line(raw.ContainerName)
		}
		switch {
		case raw.Location != nil:
			at, err := PathOf(raw.Location.URI)
			if err != nil {
				continue
			}
			s.Path, s.Range = at, raw.Location.Range
		case raw.SelectionRange != nil:
			s.Range = *raw.SelectionRange
		}
		if s.Path == "" {
			continue
		}
		*out = append(*out, s)
		flatten(raw.Children, path, s.Name, depth+1, out)
	}
}

// Action is a code action.
type Action struct {
	Title, Kind string
	Preferred   bool
	// Disabled is the server's reason why the action cannot be used now, "" if it can be used.
	Disabled string
	Edit     json.RawMessage
	// Raw is the whole action, in the form for codeAction/resolve.
	Raw json.RawMessage
	// Command is true if the action only runs a command of the server: it has no edit and cannot be resolved.
	Command bool
}

// actionCount limits the actions of one answer.
const actionCount = 200

// ParseActions reads code actions and commands.
func ParseActions(raw json.RawMessage) ([]Action, error) {
	var list []json.RawMessage
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("the code actions cannot be read: %w", err)
	}
	var out []Action
	for _, raw := range list[:min(len(list), actionCount)] {
		var a struct {
			Title       string `json:"title"`
			Kind        string `json:"kind"`
			IsPreferred bool   `json:"isPreferred"`
			Disabled    struct{ Reason string }
			Edit        json.RawMessage `json:"edit"`
			Command     json.RawMessage `json:"command"`
			Data        json.RawMessage `json:"data"`
		}
		if json.Unmarshal(raw, &a) != nil {
			continue
		}
		out = append(out, Action{
			Title: line(a.Title), Kind: line(a.Kind), Preferred: a.IsPreferred, Disabled: line(a.Disabled.Reason), Edit: a.Edit,
			Raw:     raw,
			Command: a.Edit == nil && len(a.Command) > 0 && len(a.Data) == 0,
		})
	}
	return out, nil
}
