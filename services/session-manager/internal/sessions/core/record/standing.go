package record

import (
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Standing is an approval that covers later calls too: of its session, or of all sessions of the project in its
// folder. Times are milliseconds; 0 is no time.
type Standing struct {
	ID, Owner, ProjectID, ProjectPath string
	// SessionID is "" for one of the project.
	SessionID string
	// ApprovalID is the request that was answered so, Subject the shown call.
	ApprovalID string
	Subject    contract.Subject
	Kind       contract.StandingKind
	// Words is how many first words of the command must be the same, 0 but for [contract.SameWords].
	Words     int
	CreatedAt int64
	CreatedBy string
	RevokedAt int64
	RevokedBy string
	// Used is how many calls it has allowed.
	Used       int64
	LastUsedAt int64
}

// leastWords is how many first words of a command must be the same at least.
const leastWords = 2

// Covers reports whether a call is covered: of the same agent, tool and cage, for no reason that was not shown, and
// otherwise as the kind says.
func (s Standing) Covers(of contract.Subject) bool {
	was := s.Subject
	if of.Tool != was.Tool || of.Agent != was.Agent || of.Cage != was.Cage || !slices.Contains(of.Standing, s.Kind) {
		return false
	}
	if slices.ContainsFunc(of.Reasons, func(reason string) bool { return !slices.Contains(was.Reasons, reason) }) {
		return false
	}
	switch s.Kind {
	case contract.SameCommand:
		return of.Command == was.Command && of.Cwd == was.Cwd && slices.Equal(of.Paths, was.Paths)
	case contract.SameWords:
		first := s.FirstWords()
		return len(first) >= leastWords && len(of.Words) >= len(first) && slices.Equal(of.Words[:len(first)], first) &&
			of.Cwd == was.Cwd && slices.Equal(of.Paths, was.Paths)
	case contract.SameFiles:
		return len(of.Paths) > 0 && of.Command == "" && slices.Equal(of.Paths, was.Paths)
	}
	return false
}

// FirstWords returns the words that the covered commands begin with, nil for another kind.
func (s Standing) FirstWords() []string {
	if s.Kind != contract.SameWords || s.Words > len(s.Subject.Words) {
		return nil
	}
	return s.Subject.Words[:s.Words]
}

// Scope is session or project.
func (s Standing) Scope() string {
	if s.SessionID == "" {
		return ScopeProject
	}
	return ScopeSession
}

// The scopes of an answer.
const (
	ScopeOnce    = "once"
	ScopeSession = "session"
	ScopeProject = "project"
)

// maxSaid bounds a text within a sentence, in bytes.
const maxSaid = 300

// Sentence names the covered calls.
func (s Standing) Sentence() string {
	of := s.Subject
	what := ""
	switch s.Kind {
	case contract.SameCommand:
		what = fmt.Sprintf("The command %s in %s", quoted(of.Command), of.Cwd)
	case contract.SameWords:
		what = fmt.Sprintf("Every plain command that begins with the words %s, with any further words, in %s",
			quoted(strings.Join(s.FirstWords(), " ")), of.Cwd)
	case contract.SameFiles:
		what = "Every change of " + said(strings.Join(of.Paths, ", "))
	}
	cage := "without a cage"
	if of.Cage != "" {
		cage = "in the cage of now"
	}
	return fmt.Sprintf("%s by %s of %s, %s.", what, of.Tool, of.Agent, cage)
}

func quoted(text string) string { return fmt.Sprintf("%q", said(text)) }

func said(text string) string {
	if short := clip.Bytes(text, maxSaid); short != text {
		return short + "…"
	}
	return text
}

// Offers returns the standing approvals that a pending request may become.
func (a Approval) Offers() []Standing {
	if a.State != ApprovalPending {
		return nil
	}
	var list []Standing
	for _, kind := range a.Subject.Standing {
		s := Standing{Subject: a.Subject, Kind: kind}
		if kind == contract.SameWords {
			if s.Words = leastWords; len(a.Subject.Words) < leastWords {
				continue
			}
		}
		list = append(list, s)
	}
	return list
}

// Hash stands for the shown subject.
func (a Approval) Hash() string { return a.Subject.Fingerprint() }

// MaxStanding is how many standing approvals may be in force in a project of an operator.
const MaxStanding = 200

// StandingLimit is the answer for one more.
func StandingLimit() *fault.Error {
	return fault.New(fault.Conflict,
		"This project has %d standing approvals, the most; revoke one with `kaged approvals revoke`.", MaxStanding).
		With("reason", "standing_limit").With("limit", MaxStanding)
}

// StandingNotFound is the answer for a standing approval that the operator does not have.
func StandingNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no standing approval %q; `kaged approvals list` shows those there are.", id)
}
