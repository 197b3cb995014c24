// Package mounts clones trees of the file system by descriptor and mounts them elsewhere, without paths that could lead
// to another file by the time of their use. The supervisor prepares trees with it, and the init of a cage attaches
// them.
package mounts
