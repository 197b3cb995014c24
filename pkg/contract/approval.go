package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Subject is the subject of an approval: one tool call with its effects at this time. Its JSON form is stored and shown
// by the API.
type Subject struct {
	// Tool is the canonical name, Agent the caller.
	Tool  string `json:"tool"`
	Agent string `json:"agent_path"`
	// Reasons are the reasons for asking, one sentence each.
	Reasons []string `json:"reasons"`
	// Command is the exact command; Cwd is its folder, as written in results.
	Command string `json:"command,omitempty"`
	Cwd     string `json:"cwd,omitempty"`
	// Paths are the changed files, as written in results; Preview is the change as a unified diff.
	Paths   []string `json:"paths,omitempty"`
	Preview string   `json:"preview,omitempty"`
	// Standing are the kinds of standing approval that the operator may choose; a standing approval also covers later
	// calls.
	Standing []StandingKind `json:"standing,omitempty"`
	// Words are the words of a command that is one plain call of a program, without shell expansion.
	Words []string `json:"words,omitempty"`
	// Cage identifies the agent's cage, "" without one.
	Cage string `json:"cage,omitempty"`
	// Network are the "host:port" pairs that a command in the cage can reach.
	Network []string `json:"network,omitempty"`
}

// StandingKind is the kind of later calls, of the same agent, tool and cage, that a standing approval covers.
type StandingKind string

// The kinds.
const (
	// SameCommand covers the same command in the same folder.
	SameCommand StandingKind = "command"
	// SameWords covers plain commands that begin with the same words, in the same folder.
	SameWords StandingKind = "words"
	// SameFiles covers changes of the same files.
	SameFiles StandingKind = "files"
)

// Fingerprint identifies the subject. Different subjects have different fingerprints.
func (s Subject) Fingerprint() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // the value holds only texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

//convert:both .Proto SubjectFromProto Subject *commonv1.ApprovalSubject Agent=AgentPath >string=valid

// Question is the end of a call that was not made because it needs an operator's approval.
type Question struct {
	Subject Subject
	// Fingerprint identifies the subject. A grant refers to it.
	Fingerprint string
}

// Verdict is the outcome of an approval.
type Verdict int

// The verdicts. Any other value counts as a refusal.
const (
	Approved Verdict = iota + 1
	Denied
	Expired
)

// Decision is an operator's answer.
type Decision struct {
	Verdict Verdict
	// Comment is addressed to the agent.
	Comment string
}
