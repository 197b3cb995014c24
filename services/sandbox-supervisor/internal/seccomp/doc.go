// Package seccomp makes the system call filters of cages.
//
// A filter is an allow-list. What is not on it fails with EPERM, a call that is newer than the list with ENOSYS so that
// programs fall back, and a call of another architecture kills. Arguments are compared by their lower 32 bits, which are all
// the kernel looks at in those that are compared: a number with higher bits set is the same number.
//
// The list is that of Docker's default profile for a process without capabilities (moby/profiles/seccomp v0.2.3), less what
// lets a process look into or change others, make namespaces, mount, and reach kernel interfaces that no build needs, and with
// narrower rules where the arguments matter. It is compiled here, by a search over ranges of numbers: a compiler whose every
// result is held against the rules themselves is smaller than the ways of configuring one.
package seccomp
