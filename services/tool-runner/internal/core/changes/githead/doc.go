// Package githead reads the files of HEAD in a repository that an agent may have written.
//
// It reads inside a process that others depend on, so no repository can make it use much memory or time: the bound of
// an object is compared with its declared and with its actual size, an index of a pack is searched on the disk,
// files other than regular ones are not opened, and every step ends with its context. A library for git has no such
// bounds.
//
// It reads loose objects, packs of versions 2 and 3 with indexes of versions 1 and 2, alternates, worktrees and packed
// references. It knows neither SHA-256 nor reftable.
package githead
