// Package ignore decides which files of a tree git ignores, by the same rules in the same order: the .gitignore files
// of a folder and its parents, .git/info/exclude, and core.excludesFile of the repository's or the user's
// configuration. Patterns are matched as git's wildmatch does. Tracked files are not ignored by any pattern: the
// repository's index is read when a pattern excludes a name.
//
// A folder that is a repository of its own starts afresh, as git does there. In a folder that is no repository
// .gitignore files count all the same.
//
// [List] are one file's patterns, [Dir] the rules in one folder of a walk.
package ignore
