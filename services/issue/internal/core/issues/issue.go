package issues

import (
	"regexp"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
)

// The reasons of conflicts.
const (
	ReasonTransition = "invalid_transition"
	ReasonVersion    = "version_mismatch"
	ReasonClientID   = "client_id_reused"
)

// The limits of stored texts. The lengths of titles, todos, phases and notes are in characters, of bodies in bytes.
const (
	MaxTitle    = 200
	MaxBody     = 16 << 10
	MaxTodo     = 500
	MaxPhase    = 100
	MaxNote     = 2000
	MaxItems    = 100
	MaxTodos    = 1000
	MaxNotes    = 100
	MaxQuery    = 500
	MaxImported = 500
	// MaxCounted is the highest count of matching issues, because each counted issue is read.
	MaxCounted = 1000
	// MaxShown is the maximum number of updates that are shown with an issue.
	MaxShown = 200
)

// Project is a project of an operator.
type Project struct{ Owner, ID string }

// Ref identifies an issue.
type Ref struct {
	Project
	Number int64
}

// Issue is an issue. Times are milliseconds since the Unix epoch; a nil pointer is an absent value.
type Issue struct {
	ID string
	Project
	Number                 int64
	Title, Body            string
	OriginalBody           *string
	Status                 Status
	Assignment             *string
	CreatedBy              string
	CreatedAt, UpdatedAt   int64
	ResolvedAt             *int64
	ResolvedBy             *string
	Version                int64
	ImportedFrom, ClientID string
	// ContentHash is the hash of title and body at the creation.
	ContentHash []byte
}

// Kind is the kind of an update.
type Kind string

// The kinds of updates.
const (
	Comment          Kind = "comment"
	StatusChange     Kind = "status_change"
	TitleEdit        Kind = "title_edit"
	BodyEdit         Kind = "body_edit"
	AssignmentChange Kind = "assignment_change"
)

// Visibility is the audience of an update.
type Visibility string

// The visibilities.
const (
	ForAll      Visibility = "all"
	ForOperator Visibility = "operator_only"
)

// Update is a comment or a change of an issue.
type Update struct {
	Seq        int64
	ID         string
	Author     string
	Kind       Kind
	Body       string
	Metadata   map[string]any
	Visibility Visibility
	CreatedAt  int64
}

// NotFound is the error for a missing issue.
func NotFound(number int64) *fault.Error {
	return fault.New(fault.NotFound, "The project has no issue #%d.", number).With("number", number)
}

// checkTitle fails with validation_failed for a title that is empty, too long or has several lines.
func checkTitle(title string) error {
	if strings.TrimSpace(title) == "" {
		return check.Field("title", "title must not be empty.")
	}
	if strings.ContainsAny(title, "\n\r") {
		return check.Field("title", "title must be one line; the rest belongs in the body.")
	}
	return check.Text("title", title, MaxTitle)
}

// checkMarkdown fails with validation_failed for a text over MaxBody.
func checkMarkdown(field, text string) error {
	if len(text) > MaxBody {
		return check.Field(field, "%s must have at most %d bytes; it has %d.", field, MaxBody, len(text))
	}
	return check.Text(field, text, 0)
}

// assignments are the forms of an assignment.
var assignments = regexp.MustCompile(`^(primary|workflow:[a-z0-9][a-z0-9_-]{0,63}|session:[0-9A-Za-z]{1,64})$`)

func checkAssignment(value string) error {
	if !assignments.MatchString(value) {
		return check.Field("assignment", `assignment must be null, "primary", "workflow:NAME" or "session:ID".`)
	}
	return nil
}
