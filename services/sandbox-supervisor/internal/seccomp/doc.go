// Package seccomp makes the system call filters of cages.
//
// A filter is an allow-list. Other calls fail with EPERM, calls newer than the list with ENOSYS so that programs fall
// back, and calls of another architecture kill. Arguments are compared by their lower 32 bits, the only ones that the
// kernel uses in the compared arguments: a number with higher bits set is the same number.
//
// The list is that of Docker's default profile for a process without capabilities (moby/profiles/seccomp v0.2.3),
// less the calls that inspect or change other processes, make namespaces, mount, and reach kernel interfaces that no
// build needs, and with narrower rules where the arguments matter. It is compiled here, by a search over ranges of
// numbers: a compiler with every result checked against the rules is smaller than the configuration of a library.
package seccomp
