package blueprint

import "golang.org/x/sys/unix"

// The arguments that make the program of inits do something else: nothing until it is killed, and starting inits.
const (
	ArgHold   = "hold"
	ArgLaunch = "launch"
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
