// Package shellguard finds the commands a text or an argument list would run, before it runs, and
// classifies them.
//
// Shell text is parsed as shells do (as bash and as POSIX sh; commands of either reading count) and
// every command in it is examined: in lists, pipelines, subshells, substitutions, functions,
// here-documents fed to a shell, and texts given to eval, trap or sh -c. Programs that start others
// (those in wrappers.go, git, find and fd) are looked through, after any options: an unknown option
// is read both ways, with the next word as its value and without. Quoting, escapes and paths are no
// disguise: \rm, 'r'm, $'\x72m', /bin/rm and busybox rm are all rm.
//
// A command is compared with two lists of rules: refused ones, and destructive ones that need
// approval. A change of a system path by redirection or by a known writing command (those in
// writes.go) is destructive too, also by a relative path, from the command's folder or from one it
// entered by cd. Commands that cannot be told without running them count as destructive: a name
// built at run time, a shell that reads its commands from a pipe, text that does not parse. Text
// that is nested too deep, or has too many readings to examine, is refused: useful commands do not
// need that, and a blocked one could hide there.
//
// It is a guard rail against accidents and plain disguises, not a wall; the cage is the wall. It
// does not see into scripts and programs: sh script.sh, make, ./a.out, python -c, perl -e, awk's
// system(), starters of programs that are on no list here, and containers and hosts entered by
// other means than ssh are judged by name. Text typed into a running program is judged piece by
// piece, and unclear pieces pass. Paths are judged as written, with HOME and PWD; not followed are
// programs missing in writes.go, further writes of listed ones, links, names made at run time,
// files that a command was copied or linked to, functions and variables of the environment, and
// options that come from a variable.
package shellguard
