// Package paths decides where a tool may reach in the file system, and reaches there.
//
// A [Space] is one project's root plus the operator's allowed paths, minus the denied ones. [Space.Resolve] follows
// every link of a path a model wrote and returns its real end: inside the space, or a refusal. Operations
// afterwards use the resolved path relative to the root's descriptor, by calls that follow no link at all (openat2
// with RESOLVE_NO_SYMLINKS, or a walk with O_NOFOLLOW on kernels without it). So a link that is put in place
// between the decision and the act makes the act fail; it cannot move it.
//
// Comparisons are made component by component on resolved paths, never on prefixes of strings.
package paths
