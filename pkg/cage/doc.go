// Package cage is what a cage: block means: which paths, hosts, system calls and limits an agent has. It makes a policy
// real for one project ([Compile]), holds a child's against its parent's ([Narrow]), and says it in plain words
// ([View.Describe]). It enforces nothing: the sandbox supervisor builds the box from a [View], and the tool runner asks the
// same [View] before it touches a file for an agent.
package cage
