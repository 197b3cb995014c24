package contract

import "kaged.dev/pkg/dsl"

// Caller is the agent that calls tools, its place, and its permissions.
type Caller struct {
	SessionID, RunID, RequestID string
	// InvocationID is the agent's invocation within the run, empty for the root agent.
	InvocationID string
	// Agent is the calling agent.
	Agent string
	// ProjectID is the project's, Root its folder, absolute.
	ProjectID, Root string
	OperatorID      string
	// Cage is the agent's policy, nil for none. CageID is the cage its commands run in, empty for one of their own
	// each.
	Cage   *dsl.Cage
	CageID string
	// ProjectCaged says that an agent of the project has a cage, this one or another.
	ProjectCaged bool
	// LanguageServers are those that the project declares.
	LanguageServers []dsl.LanguageServer
	// Debugging is how the project's programs are debugged.
	Debugging dsl.Debugging
	// Tools are the canonical names of the agent's tools.
	Tools []string
	// KnowsFiles says that the caller counts as having read every file it names, as it is.
	KnowsFiles bool
	// Issue is the number of the issue that the session is bound to, 0 for none.
	Issue int64
	// Job is set where no operator can be asked.
	Job *Job
	// ApproveWrites says that an operator is asked before each call that changes files or runs programs.
	ApproveWrites bool
}

// Job is the policy of work that runs unattended.
type Job struct {
	// Tools are the canonical names of the tools it may use besides those that only look.
	Tools []string
}

// Record returns a record about a call of the caller's. Its ids are added to fields.
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

// OwnerKind is the kind of thing that a command or a cage ends with.
type OwnerKind int

// The kinds. The zero value is the session, or the project where no session is named.
const (
	OwnedByDefault OwnerKind = iota
	OwnedBySession
	OwnedByRun
	OwnedByProject
)

// Owner is the session, run, call and project that a command or a cage is for. Kind says with which of them it ends.
type Owner struct {
	Kind                                       OwnerKind
	SessionID, RunID, CallID, ProjectID, Agent string
}
