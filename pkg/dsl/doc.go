// Package dsl reads .kaged/project.yaml, the file in which an operator describes a project's agents.
//
// [Parse] takes the bytes of the files it is given and returns a [Project], every [Diagnostic] with its place, and the
// files it still wants: the overlay .kaged/project.local.yaml, the prompt files the agents name, and the project files
// of the folders that subagents refer to. It touches no disk and no network; the caller calls it again with the wanted
// files until the list is empty. The same bytes give the same answer.
//
// The grammar of a project file is written down once, as the shapes in grammar.go. They check a file, and [Schema]
// prints them as the JSON Schema that editors use, so the two cannot drift apart.
//
// Input is hostile: a file is at most [MaxFileSize], and its tokens, its nesting and the nodes that YAML aliases expand
// to are bounded. Parse answers every result of the YAML library with diagnostics and never panics.
//
//go:generate go run ./internal/gen
package dsl
