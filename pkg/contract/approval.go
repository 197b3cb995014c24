package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Subject is the subject of a request for approval: one tool call, as it would act if it were made now. Its JSON form
// is stored and shown by the API.
type Subject struct {
	// Tool is the canonical name, Agent the caller.
	Tool  string `json:"tool"`
	Agent string `json:"agent_path"`
	// Reasons say why it needs approval, one sentence each.
	Reasons []string `json:"reasons"`
	// Command is the exact command, Cwd the folder it runs in as results name it.
	Command string `json:"command,omitempty"`
	Cwd     string `json:"cwd,omitempty"`
	// Paths are the files it changes as results name them, Preview is the change as a unified diff.
	Paths   []string `json:"paths,omitempty"`
	Preview string   `json:"preview,omitempty"`
	// Standing are the kinds of standing approvals that it may become, which cover later calls too.
	Standing []StandingKind `json:"standing,omitempty"`
	// Words are the words of a command that is one plain call of a program, without a part for a shell to expand.
	Words []string `json:"words,omitempty"`
	// Cage stands for the cage of the agent, "" without one.
	Cage string `json:"cage,omitempty"`
}

// StandingKind says which later calls of the same agent, tool and cage a standing approval covers.
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

// Fingerprint stands for the subject. Any other subject has another one.
func (s Subject) Fingerprint() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // it holds only texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

//convert:both .Proto SubjectFromProto Subject *commonv1.ApprovalSubject Agent=AgentPath >string=valid

// Question is the end of a call that was not made because an operator has to allow it.
type Question struct {
	Subject Subject
	// Fingerprint stands for the subject. A grant names it.
	Fingerprint string
}

// Verdict is how a request for approval ended.
type Verdict int

// The verdicts. Any other value is a refusal.
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
