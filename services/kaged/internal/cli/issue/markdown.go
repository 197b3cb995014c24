package issue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"kaged.dev/pkg/fault"
)

// An issue as Markdown has a head of JSON values, one per line, and sections. A section has a line with a mark, a
// heading, an empty line, its text unchanged, and an empty line. In a text, a line that looks like a mark gets one more
// backslash, so that no text ends its section.
const (
	headLine = "---"
	format   = "kaged-issue: 1"
	mark     = "<!-- kaged:"
	markEnd  = " -->"
)

// head is the part before the sections: an issue without its texts.
type head struct {
	ID           string  `json:"id"`
	ProjectID    string  `json:"project_id"`
	Number       int64   `json:"number"`
	Title        string  `json:"title"`
	Status       string  `json:"status"`
	Assignment   *string `json:"assignment"`
	CreatedBy    string  `json:"created_by"`
	CreatedAt    int64   `json:"created_at"`
	UpdatedAt    int64   `json:"updated_at"`
	ResolvedAt   *int64  `json:"resolved_at"`
	ResolvedBy   *string `json:"resolved_by"`
	Version      int64   `json:"version"`
	ImportedFrom string  `json:"imported_from,omitempty"`
}

// writeMarkdown returns an issue in the form of a Markdown file.
func writeMarkdown(i issueView) (string, error) {
	top, err := json.Marshal(head{
		i.ID, i.ProjectID, i.Number, i.Title, i.Status, i.Assignment, i.CreatedBy, i.CreatedAt, i.UpdatedAt, i.ResolvedAt,
		i.ResolvedBy, i.Version, i.ImportedFrom,
	})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(headLine + "\n" + format + "\n")
	for dec := json.NewDecoder(bytes.NewReader(top)); ; {
		key, value, err := nextField(dec)
		if err != nil {
			return "", err
		}
		if key == "" {
			break
		}
		fmt.Fprintf(&b, "%s: %s\n", key, value)
	}
	b.WriteString(headLine + "\n\n")
	section(&b, "body", "# "+oneLine(i.Title), i.Body)
	if i.OriginalBody != nil {
		section(&b, "original_body", "## As it was filed", *i.OriginalBody)
	}
	for _, t := range i.Todos {
		text := t.Content
		t.Content = ""
		attributes, err := json.Marshal(t)
		if err != nil {
			return "", err
		}
		section(&b, "todo "+string(attributes), "## Todo, "+t.Kind+", "+strings.ReplaceAll(t.Status, "_", " "), text)
	}
	for _, u := range i.Updates {
		text := u.Body
		u.Body = ""
		attributes, err := json.Marshal(u)
		if err != nil {
			return "", err
		}
		at := time.UnixMilli(u.CreatedAt).UTC().Format(time.RFC3339)
		section(&b, "update "+string(attributes), fmt.Sprintf("## %s, %s: %s", oneLine(u.Author), at,
			strings.ReplaceAll(u.Kind, "_", " ")), text)
	}
	return b.String(), nil
}

// nextField returns the next name and value of an object, "" at its end.
func nextField(dec *json.Decoder) (string, json.RawMessage, error) {
	for {
		token, err := dec.Token()
		if err != nil {
			return "", nil, err
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '}' {
				return "", nil, nil
			}
		case string:
			var value json.RawMessage
			return token, value, dec.Decode(&value)
		}
	}
}

// oneLine returns a text in the form for a part of a heading.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// looksLikeMark matches lines that are marks, apart from backslashes before them.
var looksLikeMark = regexp.MustCompile(`(?m)^(\\*)` + mark)

func section(b *strings.Builder, name, heading, text string) {
	text = looksLikeMark.ReplaceAllString(text, `\`+`$1`+mark)
	fmt.Fprintf(b, "%s%s%s\n%s\n\n%s\n\n", mark, name, markEnd, heading, text)
}

// readMarkdown reads the text of a file that writeMarkdown wrote. It fails with bad_request for another text.
func readMarkdown(text string) (issueView, error) {
	rest, ok := strings.CutPrefix(text, headLine+"\n"+format+"\n")
	top, sections, found := strings.Cut(rest, "\n"+headLine+"\n")
	if !ok || !found {
		return issueView{}, fault.New(fault.BadRequest, "It is no issue of `kaged issue export --format markdown`.")
	}
	var object bytes.Buffer
	for n, line := range strings.Split(top, "\n") {
		key, value, ok := strings.Cut(line, ": ")
		name, err := json.Marshal(key)
		if !ok || err != nil || !json.Valid([]byte(value)) {
			return issueView{}, fault.New(fault.BadRequest, "Line %d is not of the form \"name: JSON value\".", n+3)
		}
		object.WriteString(map[bool]string{true: "{", false: ","}[n == 0])
		fmt.Fprintf(&object, "%s:%s", name, value)
	}
	object.WriteString("}")
	var h head
	if err := json.Unmarshal(object.Bytes(), &h); err != nil || h.ID == "" {
		return issueView{}, fault.Wrap(err, fault.BadRequest, "Its head is not that of an issue.")
	}
	i := issueView{
		ID: h.ID, ProjectID: h.ProjectID, Number: h.Number, Title: h.Title, Status: h.Status, Assignment: h.Assignment,
		CreatedBy: h.CreatedBy, CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt, ResolvedAt: h.ResolvedAt,
		ResolvedBy: h.ResolvedBy, Version: h.Version, ImportedFrom: h.ImportedFrom,
	}
	// A line break at both ends makes every text end with one before the next mark or the end.
	parts := strings.Split("\n"+strings.TrimSuffix(sections, "\n"), "\n"+mark)
	for _, part := range parts[1:] {
		if err := i.takeSection(part); err != nil {
			return issueView{}, err
		}
	}
	return i, nil
}

// takeSection reads a section, from the name in its mark.
func (i *issueView) takeSection(part string) error {
	line, rest, _ := strings.Cut(part, "\n")
	line = strings.TrimSuffix(line, "\r")
	name, ok := strings.CutSuffix(line, markEnd)
	if !ok {
		return fault.New(fault.BadRequest, "The mark %q has no end.", line)
	}
	_, text, _ := strings.Cut(rest, "\n\n")
	text = strings.TrimSuffix(text, "\n")
	text = looksLikeMark.ReplaceAllStringFunc(text, func(m string) string { return strings.TrimPrefix(m, `\`) })
	name, attributes, _ := strings.Cut(name, " ")
	var err error
	switch name {
	case "body":
		i.Body = text
	case "original_body":
		i.OriginalBody = &text
	case "todo":
		var t todoView
		err = json.Unmarshal([]byte(attributes), &t)
		t.Content = text
		i.Todos = append(i.Todos, t)
	case "update":
		var u updateView
		err = json.Unmarshal([]byte(attributes), &u)
		u.Body = text
		i.Updates = append(i.Updates, u)
	default:
		return fault.New(fault.BadRequest, "The section %q is unknown.", name)
	}
	if err != nil {
		return fault.Wrap(err, fault.BadRequest, "The values in the mark of a section %q cannot be read.", name)
	}
	return nil
}
