// Package change changes files of projects, several together or none of them.
//
// A [Writer] replaces, makes, moves and removes files at places that package paths has resolved. A
// [Journal] holds the sets of changes under way, so that [Recover] takes back a process's half-made
// changes after a kill -9. An [Observer] receives each changed file in order.
package change
