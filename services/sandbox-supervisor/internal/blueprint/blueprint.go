// Package blueprint describes the cage that an init builds: its mounts, the other files of its root, and the rights of
// its processes.
//
// A [Base] and then a [Plan] are sent as JSON in frames (package frame), the plan after its descriptors. The init
// trusts both.
package blueprint

import (
	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// The only user of a cage and its home. UID and GID are its ids if the cage has its own user namespace.
const (
	UID  = 1000
	GID  = 1000
	User = "agent"
	Home = "/home/agent"
)

// The layers of a cage, as the init names them in errors.
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

// Base is the policy-independent part of a cage, which an init builds in advance.
type Base struct {
	// Mark is the mark of the init itself; see package proc.
	Mark uint64 `json:"mark"`
	// Userns means that the init has its own user namespace.
	Userns bool `json:"userns,omitempty"`
	// GID is the group of the cage's user.
	GID int `json:"gid"`
	// System are the paths of the read-only system: folders are bound, links are copied, missing paths are skipped.
	System []string `json:"system,omitempty"`
	// Etc are the visible names of /etc; missing ones and those that are not world-readable are skipped.
	Etc []string `json:"etc,omitempty"`
	// Texts are generated files, by absolute path.
	Texts map[string]string `json:"texts,omitempty"`
	// TmpBytes and TmpInodes limit the private folders together.
	TmpBytes  int64 `json:"tmp_bytes"`
	TmpInodes int64 `json:"tmp_inodes"`
}

// Plan is the policy-dependent part of a cage, built on its base.
type Plan struct {
	// Hidden are kaged's own paths, covered with an empty folder or file if they lie in the system.
	Hidden []ownpath.Path `json:"hidden,omitempty"`
	// TmpBytes and TmpInodes override the limits of the base; 0 keeps those.
	TmpBytes  int64 `json:"tmp_bytes,omitempty"`
	TmpInodes int64 `json:"tmp_inodes,omitempty"`
	// Binds are the granted trees, parents before their children.
	Binds []Bind `json:"binds,omitempty"`
	// Covered are sockets in the granted trees, to be covered with an empty file. Bytes, because a path need not be
	// UTF-8.
	Covered [][]byte `json:"covered,omitempty"`
	// Net is the cage's network.
	Net netns.Plan `json:"net"`
	// Processes limits processes and threads; 0 means no limit.
	Processes int64 `json:"processes,omitempty"`
	// Filter is the seccomp program in the kernel's form.
	Filter []byte `json:"filter"`
}

// Bind is a tree or a file that is visible in a cage.
type Bind struct {
	// Path is the path inside; From is the path on the host, empty if it is the same.
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	// Tree is the index of the received descriptor of a detached mount, ready to attach; -1 if the init must open and
	// mount the path itself.
	Tree int `json:"tree"`
	// Writable permits changes; Dir marks a folder.
	Writable bool `json:"writable,omitempty"`
	Dir      bool `json:"dir,omitempty"`
	// Dev and Ino identify the file found by the supervisor; the init refuses any other.
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
	// Within marks a path inside another Bind; the init must find the same file there.
	Within bool `json:"within,omitempty"`
	// Own marks the cage's persistent home, which is not part of the project.
	Own bool `json:"own,omitempty"`
}
