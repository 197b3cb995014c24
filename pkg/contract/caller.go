package contract

import "kaged.dev/pkg/dsl"

// Caller is the agent that calls tools, with its project and its permissions.
type Caller struct {
	SessionID, RunID, RequestID string
	// InvocationID is the agent's invocation within the run, empty for the root agent.
	InvocationID string
	// Agent is the calling agent.
	Agent string
	// ProjectID is the project's id; Root is the project's folder, absolute.
	ProjectID, Root string
	OperatorID      string
	// Cage is the agent's policy, nil without a cage. CageID is the cage of its commands, empty if each command has its
	// own cage.
	Cage   *dsl.Cage
	CageID string
	// ProjectCaged is true if any agent of the project has a cage.
	ProjectCaged bool
	// LanguageServers are those that the project declares.
	LanguageServers []dsl.LanguageServer
	// Debugging are the project's settings for debugging its programs.
	Debugging dsl.Debugging
	// Tools are the canonical names of the agent's tools.
	Tools []string
	// KnowsFiles means that the caller counts as having read the present content of every file it names.
	KnowsFiles bool
	// Issue is the number of the issue that the session is bound to, 0 for none.
	Issue int64
	// Job is set if no operator can be asked.
	Job *Job
	// ApproveWrites means that an operator is asked before each call that changes files or runs programs.
	ApproveWrites bool
}

// Job is the policy of work that runs unattended.
type Job struct {
	// Tools are the canonical names of the permitted tools besides the read-only ones.
	Tools []string
}

// Record returns a record about a call by the caller. It adds the caller's ids to fields.
func (c *Caller) Record(event string, fields map[string]any) Record {
	fields["request_id"], fields["session_id"], fields["run_id"] = c.RequestID, c.SessionID, c.RunID
	fields["caller"] = c.Agent
	if c.InvocationID != "" {
		fields["invocation_id"] = c.InvocationID
	}
	return NewRecord(event, c.Agent, fields)
}

// Owner returns the owner of a command that the caller starts with call.
func (c *Caller) Owner(call string) Owner { return ownerOf(c, call) }

//convert:one ownerOf(call string) *Caller Owner >CallID=call >Kind=-

// OwnerKind says with which owner a command or a cage ends.
type OwnerKind int

// The kinds. The zero value is the session, or the project if no session is named.
const (
	OwnedByDefault OwnerKind = iota
	OwnedBySession
	OwnedByRun
	OwnedByProject
)

// Owner is the session, run, call and project of a command or a cage. It ends with the one that Kind names.
type Owner struct {
	Kind                                       OwnerKind
	SessionID, RunID, CallID, ProjectID, Agent string
}
