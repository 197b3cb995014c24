package contract

// Finding is a path that was made in a cage's writable folders and that may make tools outside the cage run code.
type Finding struct {
	// Kind is gitlink, repository, hook_path, name, partial or policy. Path is absolute, empty for partial and policy.
	// Text is a sentence about it.
	Kind, Path, Text string
}

//convert:both findingProto findingFromProto Finding *commonv1.CageFinding >string=valid
//convert:both FindingsProto FindingsFromProto []Finding []*commonv1.CageFinding

// Attempt is a connection or a lookup that a command in a cage attempted.
type Attempt struct {
	At int64
	// Target is "host:port"; "host" for a lookup; an address if the command connected without a name; "UDP" or "UDP over
	// IPv6" if the rest is unknown.
	Target string
	// Allowed is true if the attempt was let through. Rule is then the rule of the policy, else a sentence with the reason
	// for the refusal.
	Allowed bool
	Rule    string
	// Count is the number of attempts of this kind, at least 1.
	Count int64
}

//convert:both .Proto AttemptFromProto Attempt *commonv1.NetworkAttempt >string=valid <Count=max(in.Count,1)

// CageStatus is the state of an agent's cage.
type CageStatus string

// The statuses. A caged agent has the first one from the start of its run until its cage exists.
const (
	CagePending CageStatus = "pending"
	Caged       CageStatus = "caged"
	Uncaged     CageStatus = "uncaged"
)

// Cage is an existing cage.
type Cage struct {
	// ID is a ULID.
	ID string
	// Tier is the kind of enforcement, userns or setuid. BestEffort are the parts of the policy that are enforced by
	// polling, one sentence each.
	Tier       string
	BestEffort []string
	// Summary is the policy in one line.
	Summary string
	// Notes are sentences for the operator.
	Notes []string
}

// CageEvent is an event of a cage: one of Checked, Opened, Network and Ended is set.
type CageEvent struct {
	// Checked is true if the policy can be enforced and its paths are open.
	Checked bool
	Opened  *Cage
	Network *Attempt
	// Ended is the reason for the end: oom, pids, walltime, disk, owner_ended or lost. It is the last event. Found are the
	// findings in its writable folders at the end.
	Ended string
	Found []Finding
}
