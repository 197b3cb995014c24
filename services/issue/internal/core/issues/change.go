package issues

import (
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Change is a requested change of an issue. Nil and empty fields mean no change.
type Change struct {
	Title, Body *string
	// Assign is true if Assignment is set; "" removes the assignment.
	Assign     bool
	Assignment string
	Status     Status
	Comment    string
	// Version is the version to change, 0 for any.
	Version int64
}

// Changed is an issue after a change.
type Changed struct {
	Issue Issue
	// From is the status before the change.
	From Status
	// Fields are the names of the changed fields.
	Fields []string
}

// check fails with bad_request for an empty change and with validation_failed.
func (c Change) check() error {
	if c.Title == nil && c.Body == nil && !c.Assign && c.Status == "" && c.Comment == "" {
		return fault.New(fault.BadRequest, "Give at least one of title, body, assignment, status and comment.")
	}
	if c.Title != nil {
		if err := checkTitle(*c.Title); err != nil {
			return err
		}
	}
	if c.Body != nil {
		if err := checkMarkdown("body", *c.Body); err != nil {
			return err
		}
	}
	if c.Assign && c.Assignment != "" {
		if err := checkAssignment(c.Assignment); err != nil {
			return err
		}
	}
	if c.Status != "" && !c.Status.Known() {
		return check.Field("status", "status must be one of %v.", Statuses())
	}
	if c.Comment != "" && strings.TrimSpace(c.Comment) == "" && c.Status == "" {
		return check.Field("comment", "comment must not be blank.")
	}
	return checkMarkdown("comment", c.Comment)
}

// apply returns the issue after the change and the updates that record it. It fails with conflict and
// validation_failed.
func (c Change) apply(i Issue, author string, now int64) (Changed, []Update, error) {
	if c.Version != 0 && c.Version != i.Version {
		return Changed{}, nil, fault.New(fault.Conflict,
			"Issue #%d was changed in between: it has version %d, not %d. Read it again and repeat the change.", i.Number,
			i.Version, c.Version).
			With("reason", ReasonVersion).With("version", i.Version)
	}
	out := Changed{Issue: i, From: i.Status}
	n := &out.Issue
	var updates []Update
	note := func(field string, kind Kind, metadata map[string]any) {
		out.Fields = append(out.Fields, field)
		updates = append(updates, Update{
			ID: ident.New(), Author: author, Kind: kind, Metadata: metadata, Visibility: ForAll,
			CreatedAt: now,
		})
	}
	if c.Title != nil && *c.Title != i.Title {
		n.Title = *c.Title
		note("title", TitleEdit, map[string]any{"old_title": i.Title, "new_title": n.Title})
	}
	if c.Body != nil && *c.Body != i.Body {
		n.Body = *c.Body
		if i.OriginalBody == nil {
			n.OriginalBody = &i.Body
		}
		note("body", BodyEdit, map[string]any{"old_bytes": len(i.Body), "new_bytes": len(n.Body)})
	}
	if c.Assign && c.Assignment != value(i.Assignment) {
		n.Assignment = nil
		if c.Assignment != "" {
			n.Assignment = &c.Assignment
		}
		note("assignment", AssignmentChange, map[string]any{
			"old_assignment": orNil(value(i.Assignment)),
			"new_assignment": orNil(c.Assignment),
		})
	}
	if c.Status != "" {
		if err := transition(i.Number, i.Status, c.Status, c.Comment); err != nil {
			return Changed{}, nil, err
		}
		n.Status = c.Status
		n.ResolvedAt, n.ResolvedBy = nil, nil
		if c.Status == Resolved {
			n.ResolvedAt, n.ResolvedBy = &now, &author
		}
		note("status", StatusChange, map[string]any{"old_status": string(i.Status), "new_status": string(c.Status)})
	}
	if len(out.Fields) > 0 {
		n.Version++
	}
	if strings.TrimSpace(c.Comment) != "" {
		updates = append(updates, comment(author, c.Comment, ForAll, now))
	}
	if len(updates) > 0 {
		n.UpdatedAt = max(now, i.UpdatedAt)
	}
	return out, updates, nil
}

func comment(author, body string, v Visibility, now int64) Update {
	return Update{ID: ident.New(), Author: author, Kind: Comment, Body: body, Visibility: v, CreatedAt: now}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}
