// Package cage gives a cage: block its meaning: the paths, hosts, system calls and limits of an
// agent. It resolves a policy for one project ([Compile]), compares a child's with its parent's
// ([Narrow]), and describes it in plain words ([View.Describe]). It does not enforce: the sandbox
// supervisor builds the cage from a [View], and the tool runner asks the same [View] before it
// touches a file for an agent.
package cage
