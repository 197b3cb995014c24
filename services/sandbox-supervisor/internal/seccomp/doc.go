// Package seccomp makes the system call filters of cages.
//
// A filter is an allow-list. Other calls fail with EPERM, calls newer than the list with ENOSYS so that programs fall
// back, and calls of another architecture kill the process. Arguments are compared by their lower 32 bits, the only
// ones that the kernel uses in the compared arguments: a number with higher bits set is the same number.
//
// The list is that of Docker's default profile for a process without capabilities (moby/profiles/seccomp v0.2.3),
// without calls that inspect or change other processes, make namespaces, mount, or use kernel interfaces that no build
// needs, and with narrower rules for some arguments. This package compiles it to a search over ranges of numbers: the
// compiler, with tests that check all its results against the rules, is smaller than the configuration of a library.
package seccomp
