// Package projects is an operator's registry of projects: loading and reloading their files, knowing whether work
// can start, and gathering a run's inputs.
//
// A project's files stay where they are. [Service.Load] reads them through a [Workspace], compiles them
// (pkg/compile) with the tools of that workspace, and registers the result. From then on the registry works from
// its store: a changed project file counts only once the operator reloads the project, because agents can write it.
// Settings of the operator alone count at once: the bindings of aliases, the prompts' text and the rules for tools.
// So whether a project is ready or pending is found out anew at each reading, and a snapshot that was made under
// other rules, or by another version of kaged, is made again from the stored sources when it is next needed.
//
// A session pins the snapshot it was created with ([Service.Current]); at each message [Service.Prepare] adds the
// prompts and routes of that moment.
package projects
