// Package projects is an operator's registry of projects: it loads and reloads their files, determines whether work can
// start, and collects the inputs of runs.
//
// A project's files stay in the project. [Service.Load] reads them through a [Workspace], compiles them (pkg/compile)
// with the tools of that workspace, and registers the result. After that the registry uses its store: a changed project
// file takes effect only when the operator reloads the project, because agents can write it. The operator's own
// settings take effect at once: the bindings of aliases, the texts of prompts and the rules for tools. So whether a
// project is ready or pending is determined at each read. A snapshot made under other rules, or by another version of
// kaged, is made again from the stored sources at its next use.
//
// A session keeps the snapshot with which it was created ([Service.Current]); at each message [Service.Prepare] adds
// the present prompts and routes.
package projects
