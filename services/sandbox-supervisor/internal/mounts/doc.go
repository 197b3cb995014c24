// Package mounts takes trees of the file system by descriptor and shows them elsewhere: never by a path that could lead
// somewhere else by the time it is used. The supervisor prepares trees with it, and the init of a cage attaches them.
package mounts
