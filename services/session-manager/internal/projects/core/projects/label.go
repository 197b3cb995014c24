package projects

import (
	"context"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/check"
)

// maxLabel is the maximum length of a label, in characters.
const maxLabel = 80

// SetLabel changes the operator's name of a project: the text without surrounding spaces, nil or "" for no label. It
// fails with not_found, and with validation_failed for more than 80 characters.
func (s *Service) SetLabel(ctx context.Context, owner, id string, label *string) (Project, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Project{}, err
	}
	p.Label = nil
	if label != nil {
		text := strings.TrimSpace(*label)
		if utf8.RuneCountInString(text) > maxLabel || !isText([]byte(text)) {
			return Project{}, check.Field("label", "label must be at most 80 characters of text.")
		}
		if text != "" {
			p.Label = &text
		}
	}
	var shown any
	if p.Label != nil {
		shown = *p.Label
	}
	r := record(ctx, p, "project.labelled", map[string]any{"label": shown})
	if err := s.Registry.SetLabel(ctx, owner, id, p.Label, r); err != nil {
		return Project{}, err
	}
	d, err := s.Get(ctx, owner, id)
	return d.Project, err
}
