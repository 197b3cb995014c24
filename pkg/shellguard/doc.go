// Package shellguard finds and classifies the commands in a text or an argument list before they run.
//
// Shell text is parsed as bash and as POSIX sh, the commands of both readings count, and every command in it is
// examined: in lists, pipelines, subshells, substitutions, functions, here-documents fed to a shell, and texts given to
// eval, trap or sh -c. Programs that start others (those in wrappers.go, git, find and fd) are examined for the command
// that they start, after any options: an unknown option is read both with the next word as its value and without.
// Quoting, escapes and paths do not hide a command: \rm, 'r'm, $'\x72m', /bin/rm and busybox rm are all rm.
//
// A command is compared with two lists of rules: refused ones, and destructive ones that need approval. A change of a
// system path by redirection or by a known writing command (those in writes.go) is destructive too, also by a relative
// path, from the command's folder or from one it entered by cd. Commands that are unknown before they run count as
// destructive: a name built at run time, a shell that reads its commands from a pipe, text that does not parse. Text
// that is nested too deeply, or has too many readings to examine, is refused: useful commands are simpler, and it could
// hide a blocked one.
//
// It protects against accidents and simple disguises, and is not a security boundary; the cage is. It does not examine
// scripts and programs: sh script.sh, make, ./a.out, python -c, perl -e, awk's system(), starters of programs that are
// on no list here, and containers and hosts entered by other means than ssh are judged by name. Text typed into a
// running program is judged piece by piece, and unclear pieces are accepted. Paths are judged as written, with HOME and
// PWD; not followed are programs missing in writes.go, further writes of listed ones, links, names made at run time,
// files that a command was copied or linked to, functions and variables of the environment, and options that come from
// a variable.
package shellguard
