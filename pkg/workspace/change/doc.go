// Package change changes files of projects, several together or none.
//
// A [Writer] replaces, makes, moves and removes files at places that package paths has resolved. A [Journal] holds the sets of
// changes under way, so that [Recover] takes back after a kill -9 whatever a process has left half made. An [Observer] is told
// of each changed file in order.
package change
