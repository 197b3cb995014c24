// Package box makes the kernel-enforced boxes that cages are, by namespaces, a file system built from nothing but the policy
// and a read-only system, and a process in it that owns the commands: the cage's init (command cageinit), a small static
// program that is a part of this one and is started from a sealed copy in memory.
//
// What the policy grants is opened here, without following a link, made a mount of its own, given its attributes and its owner
// mapping, and handed to the init by descriptor, so that nothing that is checked by its path is used by its path later. Where
// this process has not the right to mount, the init does that in its own user namespace, and compares what it finds with what
// was found here.
//
// A [Box] has one goroutine, which reads what its init says; it ends when the init and with it everything in the box is gone.
package box
