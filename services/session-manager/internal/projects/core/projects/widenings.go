package projects

import (
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// The reasons of a conflict about an approval.
const (
	approvalRequired = "approval_required"
	approvalChanged  = "approval_changed"
)

// conflict returns the error for files that widen, with the widenings and the way to approve them.
func (x *candidate) conflict(reason, id string) *fault.Error {
	say := "The project's files grant more than was approved (%s); it goes on with the approved version. `kaged " +
		"project approve` shows and approves them."
	if reason == approvalChanged {
		say = "The project's files are not those that were to be approved (now: %s); look at them again, and approve " +
			"their hash."
	}
	return fault.New(fault.Conflict, say, summary(x.all())).
		With("reason", reason).With("project_id", id).With("hash", x.hash).With("widened", widenings(x.all())).
		With("diff", x.diff())
}

// summary names the first keys that widen.
func summary(list []approval.Widening) string {
	const most = 3
	var words []string
	for i, w := range list {
		if i == most {
			words = append(words, "and more")
			break
		}
		words = append(words, strings.TrimPrefix(w.AgentPath+": "+w.Key, ": "))
	}
	if len(words) == 0 {
		return "nothing that needs approval"
	}
	return strings.Join(words, ", ")
}

// The maximum number of listed widenings, and the maximum size of a value in bytes.
const (
	maxWidenings = 200
	maxGrant     = 1000
)

// Listed returns a list in the form for people: as many entries as fit; the last one has the number of the others.
func Listed(list []approval.Widening) []approval.Widening {
	shown := slices.Clone(list)
	if len(list) > maxWidenings {
		shown = append(shown[:maxWidenings], approval.Widening{
			Place: approval.Place{Key: "..."}, To: fmt.Sprintf("%d more", len(list)-maxWidenings),
		})
	}
	for i := range shown {
		shown[i].From, shown[i].To = grant(shown[i].From), grant(shown[i].To)
	}
	return shown
}

// widenings returns a list in the form for the details of an error and for records.
func widenings(list []approval.Widening) []any {
	orNil := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	out := []any{}
	for _, w := range Listed(list) {
		out = append(out, map[string]any{"agent_path": w.AgentPath, "key": w.Key, "from": orNil(w.From), "to": orNil(w.To)})
	}
	return out
}

func grant(text string) string {
	return strings.ToValidUTF8(clip.Marked(text, maxGrant, "…"), "\uFFFD")
}
