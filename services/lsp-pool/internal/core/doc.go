// Package core is the pool of language servers: it starts and stops them, and sends them the queries of callers.
//
// A server belongs to a view: a project's root, an entry of the catalogue with its command, and the cage of its
// callers. Callers with equal views share the server. It runs through a [Launcher] in a cage that is no wider than
// those of its callers; see [cageOf].
//
// Goroutines: [Pool.Run] stops idle servers. Each running server has those of its connection (package lsp); each root
// with servers has one watcher ([Watcher]).
package core
