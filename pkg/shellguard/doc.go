// Package shellguard finds what a command would run, before it does, and says what is to be thought of it.
//
// Shell text is parsed as shells do (as bash and as POSIX sh; what either would run counts) and every command in it is looked
// at: in lists, pipelines, subshells, substitutions, functions, here-documents that are fed to a shell, and texts that are
// given to eval, trap or sh -c. Programs that start others (those in wrappers.go, git, find and fd) are looked through,
// whatever options stand before the command: one that is not known is read both ways, with the next word as its value and
// without. Quoting, escapes and paths disguise nothing: \rm, 'r'm, $'\x72m', /bin/rm and busybox rm are all rm.
//
// A command is held against two lists of rules: one that is refused outright, one that is destructive and needs somebody's
// approval. So does a change of a system path by redirection or by a command that is known to change what it is given (those
// in writes.go), also by a relative path, from the folder it runs in or one it went to by cd. What cannot be told without
// running it counts as destructive: a name that is built at run time, a shell that reads what it runs from a pipe, text that
// does not parse. What is nested too deep, or can be read in more ways than can be looked at, is refused: nobody needs that,
// and something could hide there.
//
// It is a guard rail against accidents and plain disguises, not a wall; the cage is the wall. It does not see into scripts and
// programs: sh script.sh, make, ./a.out, python -c, perl -e, awk's system(), starters of programs that are on no list here,
// and containers and hosts entered by other means than ssh are taken at their name. Of what is typed into a running program it
// judges each piece by itself, and lets through what it cannot tell. Of paths it sees what is written down, with HOME and PWD:
// programs that are not in writes.go, and what they write besides, links, and names that are made when it runs are not
// followed. Nor does it follow a file that a command was copied or linked to, a function or variable of the environment, or
// options that come out of a variable.
package shellguard
