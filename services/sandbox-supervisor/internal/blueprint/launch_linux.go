package blueprint

import (
	"slices"

	"golang.org/x/sys/unix"
)

// The arguments that make the program of inits do something else: nothing until it is killed; starting inits; and naming the system
// calls that a filter refuses it, outside of a user namespace of its own and inside of one.
const (
	ArgHold        = "hold"
	ArgLaunch      = "launch"
	ArgCalls       = "calls"
	ArgCallsInside = "calls-inside"
)

// Launch is an init to start. It travels as JSON in a frame, with its socket, what it writes its errors to, and the folder of its
// cgroup if it has one.
type Launch struct {
	// Userns gives it a user namespace of its own.
	Userns bool `json:"userns,omitempty"`
	// UID and GID are its user as the host sees it.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Groups takes the groups from it that who starts it has.
	Groups bool `json:"groups,omitempty"`
	// Cgroup says that it is to start in a cgroup.
	Cgroup bool `json:"cgroup,omitempty"`
}

// Namespaces are what every cage has of its own, besides its user namespace.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Rights returns the capabilities that an init needs while it builds. In a user namespace of its own it also bounds others.
func Rights(userns bool) []uintptr {
	list := []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SETPCAP}
	if userns {
		list = append(list, unix.CAP_SYS_RESOURCE)
	}
	return list
}

// Leave is what a supervisor leaves on the host if it is killed, for the launcher to remove. It travels as JSON in a frame, with a file
// that stands for the supervisor's process (a pidfd).
type Leave struct {
	// Journals is the folder of the journals of stubs, empty for none.
	Journals string `json:"journals,omitempty"`
	// V1 and V2 are folders of cgroups, of version 1 and of cgroup2.
	V1 []string `json:"v1,omitempty"`
	V2 []string `json:"v2,omitempty"`
}

// Equal reports whether two are the same.
func (l Leave) Equal(m Leave) bool {
	return l.Journals == m.Journals && slices.Equal(l.V1, m.V1) && slices.Equal(l.V2, m.V2)
}
