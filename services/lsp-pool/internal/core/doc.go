// Package core is the pool of language servers: their callers, their starts and ends, and the questions that
// they are asked.
//
// A server belongs to a view: a project's root, an entry of the catalogue with its command, and the cage of its
// callers. Callers with equal views share it. It runs through a [Launcher] in a cage that is no wider than its
// callers'; see [cageOf].
//
// Goroutines: [Pool.Run] ends idle servers. Each running server has those of its connection (package lsp); each root
// that has servers has one watcher ([Watcher]).
package core
