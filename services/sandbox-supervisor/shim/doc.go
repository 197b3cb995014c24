// Package shim is the process that owns commands.
//
// The supervisor starts the small static program that is embedded in it (command cageinit) as the shim and talks to it over a
// socket (package frame). A supervisor that has no such program starts its own executable a second time. What the shim does is
// package commands. The shim is the subreaper of everything it starts: a daemon that forks twice, changes its
// session and empties its environment is still its child in the end, so nothing gets away. When its socket ends, which the
// death of the supervisor brings about, it kills all it ever started and ends. Then it also removes the cgroups of a supervisor that was
// killed.
//
// Every main function of a program that runs the sandbox supervisor begins with
//
//	if shim.Invoked() {
//		shim.Main()
//	}
//
// and so does every TestMain of a package whose tests run it.
//
// Goroutines of the shim: those of package commands, and one that drains signals. They end with the process.
package shim

import "os"

// Name is the name the shim's process is started under, by which it knows itself.
const Name = "kaged-shim"

// Misplaced is the only argument of a shim that is the supervisor's own executable. A main function that forgot to ask [Invoked] refuses it as an
// unknown flag instead of beginning its own work a second time.
const Misplaced = "-kaged-shim-needs-its-own-main"

// Socket is the descriptor at which the shim finds its end of the connection to the supervisor.
const Socket = 3

// Supervisor is the descriptor at which it finds what stands for the supervisor's process (a pidfd), where there is such a thing.
const Supervisor = 4

// Leaf is the name of the shim's own cgroup in its supervisor's tree, where there are cgroups.
const Leaf = "shim"

// Invoked reports whether this process, a program of its own, was started to be a shim. Main functions ask before they do anything
// else.
func Invoked() bool { return len(os.Args) == 2 && os.Args[0] == Name && os.Args[1] == Misplaced }
