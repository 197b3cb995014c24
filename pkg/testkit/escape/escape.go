package escape

// Outcome is the result of a case.
type Outcome string

// The outcomes.
const (
	// Contained: the attack failed.
	Contained Outcome = "contained"
	// Escaped: the attack succeeded.
	Escaped Outcome = "escaped"
	// Works: a required ability works.
	Works Outcome = "works"
	// Broken: a required ability is missing, or the case could not be tried.
	Broken Outcome = "broken"
)

// Variable is the environment variable with the probe's [Params] as JSON.
const Variable = "KAGED_ESCAPE_PARAMS"

// Result is one line of the probe's output.
type Result struct {
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`
	// Detail names the reached target, or the refusal.
	Detail string `json:"detail,omitempty"`
}

// Params are the targets of the probe. Paths are the host's.
type Params struct {
	// Uncaged means that the probe runs without a cage, as an unprivileged user, and omits harmful attempts.
	Uncaged bool `json:"uncaged,omitempty"`
	// Secret must not be readable in a cage; it is the content of the files below.
	Secret string `json:"secret"`
	// Canary is a file far outside the project, Sibling a file of the project outside all grants, HostTmp a file in the
	// host's /tmp.
	Canary  string `json:"canary"`
	Sibling string `json:"sibling"`
	HostTmp string `json:"host_tmp"`
	// Project is the project's root; Work is granted for writing, Docs for reading, Sealed is read-only in Work, Open
	// writable in Docs, and File is a single file granted for writing.
	Project string `json:"project"`
	Work    string `json:"work"`
	Docs    string `json:"docs"`
	Sealed  string `json:"sealed"`
	Open    string `json:"open"`
	File    string `json:"file"`
	// Repository is a folder in Work with a .git; Work itself is not a repository.
	Repository string `json:"repository"`
	// Linked is a repository in Work. Its index has a gitlink at "sub", which is an empty folder; its configuration names
	// the existing hooks "tools/hooks", the include "../shared.inc" and the program "tools/watch".
	Linked string `json:"linked"`
	// HostShm is the name of a file in the host's /dev/shm, SysV the key of a segment of the host.
	HostShm string `json:"host_shm"`
	SysV    int    `json:"sysv"`
	// HostPID is a process of the same user outside, Supervisor the supervisor's; 0 if a cage may have a process with the
	// same number.
	HostPID    int `json:"host_pid"`
	Supervisor int `json:"supervisor"`
	// Port and Port6 are ports of a service of the host on 127.0.0.1 and ::1, Abstract and Socket its unix sockets.
	Port     int    `json:"port"`
	Port6    int    `json:"port6"`
	Abstract string `json:"abstract"`
	Socket   string `json:"socket"`
	// Own is a file in the supervisor's data directory, OwnSocket a socket there.
	Own       string `json:"own"`
	OwnSocket string `json:"own_socket"`
	// Neighbour names the files and sockets that another cage has left in its own folders.
	Neighbour string `json:"neighbour"`
	// Allowed is a "name:port" that the policy allows, and Answer the text that it sends; Denied is a name that the policy
	// does not allow.
	Allowed string `json:"allowed,omitempty"`
	Answer  string `json:"answer,omitempty"`
	Denied  string `json:"denied,omitempty"`
}
