// Package shim is the process that owns commands.
//
// The supervisor starts the small static program that is embedded in it (command cageinit) as the shim and talks to
// it over a socket (package frame). A supervisor without the embedded program starts its own executable a second
// time. The shim's work is package commands. The shim is the subreaper of its commands: a daemon that forks twice,
// changes its session and empties its environment is still its child in the end and cannot escape. When its socket
// ends, which the death of the supervisor brings about, it kills all it ever started and ends. Then it also removes
// the cgroups of a killed supervisor.
//
// Every main function of a program that runs the sandbox supervisor begins with
//
//	if shim.Invoked() {
//		shim.Main()
//	}
//
// and so does every TestMain of a package with tests that run it.
//
// Goroutines of the shim: those of package commands, and one that drains signals. They end with the process.
package shim

import "os"

// Name is the name the shim's process is started under, by which it knows itself.
const Name = "kaged-shim"

// Misplaced is the only argument of a shim that is the supervisor's own executable. A main function that forgot to ask
// [Invoked] refuses it as an unknown flag instead of beginning its own work a second time.
const Misplaced = "-shim"

// Socket is the descriptor at which the shim finds its end of the connection to the supervisor.
const Socket = 3

// Supervisor is the shim's descriptor of a pidfd of the supervisor, on kernels with pidfds.
const Supervisor = 4

// Leaf is the name of the shim's own cgroup in its supervisor's tree, where there are cgroups.
const Leaf = "shim"

// Invoked reports whether this process, a program of its own, was started as a shim. Main functions call it first.
func Invoked() bool { return len(os.Args) == 2 && os.Args[0] == Name && os.Args[1] == Misplaced }
