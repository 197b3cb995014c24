package record

import (
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Standing is an approval that also covers later calls: in its session, or in all sessions of the project in the
// same folder. Times are Unix milliseconds, or 0.
type Standing struct {
	ID, Owner, ProjectID, ProjectPath string
	// SessionID is "" for a standing approval of the project.
	SessionID string
	// ApprovalID is the request whose answer created it, Subject the call that the operator saw.
	ApprovalID string
	Subject    contract.Subject
	Kind       contract.StandingKind
	// Words is the number of first words of the command that must match, 0 unless Kind is [contract.SameWords].
	Words     int
	CreatedAt int64
	CreatedBy string
	RevokedAt int64
	RevokedBy string
	// Used is the number of calls that it has allowed.
	Used       int64
	LastUsedAt int64
}

// leastWords is the least number of first words that must match.
const leastWords = 2

// Covers reports whether a call is covered: the same agent, tool and cage, no reason beyond those that the operator
// saw, and a match by the kind.
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

// FirstWords returns the first words of the covered commands, nil for another kind.
func (s Standing) FirstWords() []string {
	if s.Kind != contract.SameWords || s.Words > len(s.Subject.Words) {
		return nil
	}
	return s.Subject.Words[:s.Words]
}

// Scope returns session or project.
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

// maxSaid bounds a quoted text in a sentence, in bytes.
const maxSaid = 300

// Sentence describes the covered calls.
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
		cage = "in its current cage"
	}
	return fmt.Sprintf("%s by %s of %s, %s.", what, of.Tool, of.Agent, cage)
}

func quoted(text string) string { return fmt.Sprintf("%q", said(text)) }

func said(text string) string { return clip.Marked(text, maxSaid, "…") }

// Offers returns the standing approvals that the answer to a pending request may create.
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

// Hash returns a digest of the call that the operator sees.
func (a Approval) Hash() string { return a.Subject.Fingerprint() }

// MaxStanding is the largest number of valid standing approvals in a project of an operator.
const MaxStanding = 200

// StandingLimit is the error for a standing approval beyond [MaxStanding].
func StandingLimit() *fault.Error {
	return fault.New(fault.Conflict,
		"This project has %d standing approvals, the most; revoke one with `kaged approvals revoke`.", MaxStanding).
		With("reason", "standing_limit").With("limit", MaxStanding)
}

// StandingNotFound is the error for a standing approval that the operator does not have.
func StandingNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no standing approval %q; `kaged approvals list` shows those there are.", id)
}
