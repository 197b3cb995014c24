// Package shim is the process that owns commands.
//
// The supervisor runs its own executable a second time as the shim and talks to it over a socket (package frame). The
// shim is the subreaper of everything it starts: a daemon that forks twice, changes its session and empties its
// environment is still its child in the end, so nothing gets away. It promises that
//
//   - when a command's main process ends, everything it started is killed before the command is reported as exited;
//   - when its socket ends, which the death of the supervisor brings about, it kills all it ever started and ends;
//   - what a command inherits is what was asked for: its three files, its environment, no signal ignored.
//
// Whose a process is, is known by its cgroup where the supervisor can make cgroups, and by its mark (package proc); an
// orphan that carries neither is killed as soon as no command runs that could be its owner. On the usual path none of
// this is looked at: a shim without children has nothing to look for, and that is one system call.
//
// Every main function of a program that runs the sandbox supervisor begins with
//
//	if shim.Invoked() {
//		shim.Main()
//	}
//
// and so does every TestMain of a package whose tests run it. The package imports little, so that the shim can become a
// program of its own, and a cage's init.
//
// Goroutines of the shim: one reads frames, one per command that is being started, one reaps, one drains signals; a timer
// looks again while a command is ending. They end with the process.
package shim

import "os"

// Name is the name the shim's process is started under, by which it knows itself.
const Name = "kaged-shim"

// Misplaced is the only argument the shim is started with. A main function that forgot to ask [Invoked] refuses it as an
// unknown flag instead of beginning its own work a second time.
const Misplaced = "-kaged-shim-needs-its-own-main"

// Socket is the descriptor at which the shim finds its end of the connection to the supervisor.
const Socket = 3

// Invoked reports whether this process was started to be a shim. Main functions ask before they do anything else.
func Invoked() bool { return len(os.Args) == 2 && os.Args[0] == Name && os.Args[1] == Misplaced }
