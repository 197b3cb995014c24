package blueprint

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Arguments for other modes of the init program: block until killed; launch inits; name the system calls that a filter
// refuses outside a user namespace, and inside one.
const (
	ArgHold        = "hold"
	ArgLaunch      = "launch"
	ArgCalls       = "calls"
	ArgCallsInside = "calls-inside"
)

// Launch is a request to start an init. It is sent as JSON in a frame with the init's socket, its stderr, and the
// folder of its cgroup if Cgroup is set.
type Launch struct {
	// Userns gives the init its own user namespace.
	Userns bool `json:"userns,omitempty"`
	// UID and GID are its user on the host.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Groups clears its supplementary groups.
	Groups bool `json:"groups,omitempty"`
	// Cgroup means that the init starts in the cgroup of the last descriptor.
	Cgroup bool `json:"cgroup,omitempty"`
}

// Namespaces are the clone flags of every cage, without that of the user namespace.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
	unix.CLONE_NEWCGROUP

// Rights returns the capabilities of an init while it builds. CAP_SYS_RESOURCE, for limits on others, is only included
// inside a user namespace.
func Rights(userns bool) []uintptr {
	list := []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SETPCAP,
	}
	if userns {
		list = append(list, unix.CAP_SYS_RESOURCE)
	}
	return list
}

// Cleanup lists what the launcher removes from the host if the supervisor is killed. It is sent as JSON in a frame with
// a pidfd of the supervisor.
type Cleanup struct {
	// Journals is the folder of the stub journals; may be empty.
	Journals string `json:"journals,omitempty"`
	// V1 and V2 are cgroup folders of version 1 and 2.
	V1 []string `json:"v1,omitempty"`
	V2 []string `json:"v2,omitempty"`
}

// Equal reports whether both lists are the same.
func (l Cleanup) Equal(m Cleanup) bool {
	return l.Journals == m.Journals && slices.Equal(l.V1, m.V1) && slices.Equal(l.V2, m.V2)
}
