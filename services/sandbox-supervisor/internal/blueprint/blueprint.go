// Package blueprint is what the supervisor tells the init of a cage to build: which trees are seen where, what else stands in
// the root, what the processes in it may do.
//
// A [Base] and then a [Plan] travel as JSON in frames (package frame), the latter after the files it speaks of. The init trusts
// them.
package blueprint

import (
	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// The only user in a cage, and where it is at home. UID and GID are its ids where the cage has a user namespace of its own.
const (
	UID  = 1000
	GID  = 1000
	User = "agent"
	Home = "/home/agent"
)

// The layers of a cage, by which the init names what it could not build.
const (
	LayerUser     = "user namespaces"
	LayerMount    = "mount"
	LayerPID      = "pid"
	LayerNet      = "net"
	LayerIPC      = "ipc"
	LayerUTS      = "uts"
	LayerCgroupNS = "cgroup ns"
	LayerTime     = "time ns"
	LayerIDMap    = "idmapped mounts"
	LayerCaps     = "capabilities"
	LayerNoNew    = "no_new_privs"
	LayerLandlock = "landlock"
	LayerSeccomp  = "seccomp"
)

// Base is what the cages of one machine have in common: an init builds it before anybody knows what its cage is to be.
type Base struct {
	// Mark is the mark of the init itself; see package proc.
	Mark uint64 `json:"mark"`
	// Userns says that the init is in a user namespace of its own.
	Userns bool `json:"userns,omitempty"`
	// GID is the group of the cage's user.
	GID int `json:"gid"`
	// System are the paths of the read-only system: folders are shown, links are made again, what is not there is left out.
	System []string `json:"system,omitempty"`
	// Etc are the names in /etc that are shown, as far as they are there and everybody may read them.
	Etc []string `json:"etc,omitempty"`
	// Texts are files with their text, by absolute path.
	Texts map[string]string `json:"texts,omitempty"`
	// TmpBytes and TmpInodes bound the private folders all together.
	TmpBytes  int64 `json:"tmp_bytes"`
	TmpInodes int64 `json:"tmp_inodes"`
}

// Plan is a cage to build on its base.
type Plan struct {
	// Hidden are the places of kaged's own, covered by an empty folder or file where they lie in the system.
	Hidden []ownpath.Path `json:"hidden,omitempty"`
	// TmpBytes and TmpInodes bound the private folders in place of the base's, 0 for those.
	TmpBytes  int64 `json:"tmp_bytes,omitempty"`
	TmpInodes int64 `json:"tmp_inodes,omitempty"`
	// Binds are the granted trees, those above before those in them.
	Binds []Bind `json:"binds,omitempty"`
	// Covered are sockets in the granted trees that are covered with an empty file, in bytes, as JSON knows no other paths than
	// UTF-8.
	Covered [][]byte `json:"covered,omitempty"`
	// Net is the network.
	Net netns.Plan `json:"net"`
	// Processes bounds how many processes and threads there may be, 0 for no bound.
	Processes int64 `json:"processes,omitempty"`
	// Filter is the system call filter as the kernel takes it.
	Filter []byte `json:"filter"`
}

// Bind is a tree or a file that is seen in a cage.
type Bind struct {
	// Path is where it is inside; From is where it is outside, empty for the same.
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	// Tree is the number of the file that is the tree, set up and ready to be attached, among those that were handed over; -1
	// where the init is to open it itself.
	Tree int `json:"tree"`
	// Writable allows changes; Dir says that it is a folder.
	Writable bool `json:"writable,omitempty"`
	Dir      bool `json:"dir,omitempty"`
	// Dev and Ino are what the supervisor found outside: anything else there now is refused.
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
	// Within says that it lies in another Bind, where it must be found as it was outside.
	Within bool `json:"within,omitempty"`
	// Own says that it belongs to the cage and not to the project: its own home.
	Own bool `json:"own,omitempty"`
}
