// Package dsl reads .kaged/project.yaml, the file in which an operator describes a project's agents.
//
// [Parse] takes the bytes of the files it is given and returns a [Project], every [Diagnostic] with its position, and
// the missing files: the overlay .kaged/project.local.yaml, the prompt files the agents name, and the project files of
// the folders to which subagents refer. It uses no disk and no network; the caller calls it again with the missing
// files until the list is empty. The same bytes give the same result.
//
// The grammar of a project file is defined once, as the shapes in grammar.go. They validate a file, and [Schema] prints
// them as the JSON Schema for editors, so the two agree.
//
// Input is hostile: a file is at most [MaxFileSize], and its tokens, its nesting and the nodes that YAML aliases expand
// to are bounded. Parse returns diagnostics for every result of the YAML library and never panics.
//
//go:generate go run ./internal/gen
package dsl
