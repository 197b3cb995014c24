package contract

// Finding is a path that was made in a cage's writable folders and that may make tools outside run code.
type Finding struct {
	// Kind is gitlink, repository, hook_path, name, partial or policy. Path is absolute, empty for the last two. Text
	// is a sentence about it.
	Kind, Path, Text string
}

//convert:both findingProto findingFromProto Finding *commonv1.CageFinding >string=valid
//convert:both FindingsProto FindingsFromProto []Finding []*commonv1.CageFinding

// Attempt is a connection or a lookup that a command in a cage tried.
type Attempt struct {
	At int64
	// Target is "host:port", "host" for a lookup, an address where no name was asked for, or "UDP" or "UDP over IPv6"
	// where only that is known.
	Target string
	// Allowed says whether it was let through. Rule is the policy's rule that did, or a sentence with why it was
	// refused.
	Allowed bool
	Rule    string
	// Count is how many of its kind this stands for, at least 1.
	Count int64
}

//convert:both .Proto AttemptFromProto Attempt *commonv1.NetworkAttempt >string=valid <Count=max(in.Count,1)

// CageStatus is whether an agent works in a cage.
type CageStatus string

// The statuses. An agent has the first from the start of its run until its cage is there.
const (
	CagePending CageStatus = "pending"
	Caged       CageStatus = "caged"
	Uncaged     CageStatus = "uncaged"
)

// Cage is a cage that is there.
type Cage struct {
	// ID is a ULID.
	ID string
	// Tier is how it is enforced, userns or setuid. BestEffort says what of the policy is held by watching, each a
	// sentence.
	Tier       string
	BestEffort []string
	// Summary is the policy in one line.
	Summary string
	// Notes are for the operator, each a sentence.
	Notes []string
}

// CageEvent is an event of a cage: one of Checked, Opened, Network and Ended is set.
type CageEvent struct {
	// Checked says that its policy can be enforced and its paths are open.
	Checked bool
	Opened  *Cage
	Network *Attempt
	// Ended is why it has ended: oom, pids, walltime, disk, owner_ended or lost. It is the last event. Found is what
	// was found in its writable folders then.
	Ended string
	Found []Finding
}
