package cage

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/termtext"
)

// FoundKind is the kind of a [Found].
type FoundKind string

// The kinds.
const (
	// FoundGitlink is an entry of a git index that makes git enter a folder, such as a submodule.
	FoundGitlink FoundKind = "gitlink"
	// FoundRepository is a folder in which git keeps a repository, or a file that leads to one.
	FoundRepository FoundKind = "repository"
	// FoundHookPath is a path named by a configuration of git: a folder of hooks, an included
	// configuration, a program.
	FoundHookPath FoundKind = "hook_path"
	// FoundGitLink is a link in the place of a file that git writes.
	FoundGitLink FoundKind = "git_link"
	// FoundName is a protected name; see dsl.ProtectedNames.
	FoundName FoundKind = "name"
	// KnownFolder is a folder that holds a repository or a project. It is remembered, and never a finding.
	KnownFolder FoundKind = "folder"
)

// Found is a path in a cage's writable folders that makes tools outside the cage run code.
type Found struct {
	Kind FoundKind
	// Path is absolute.
	Path string
	// changed is the inode change time of a protected file that the cage can write, 0 for other paths.
	changed int64
}

// MaxFindings bounds the findings of one [View.Since]. If there are more, it has some of each sort, and the numbers of
// the others.
const MaxFindings = 50

func (c *compiler) note(f Found) {
	c.found[f] = true
}

// stamps returns the noted paths in order, with the change times of protected files that the cage can write.
func (c *compiler) stamps() []Found {
	list := make([]Found, 0, len(c.found))
	for f := range c.found {
		var st unix.Stat_t
		if f.Kind == FoundName && c.holder(f.Path).Writable && unix.Lstat(f.Path, &st) == nil &&
			st.Mode&unix.S_IFMT == unix.S_IFREG {
			f.changed = changeTime(&st)
		}
		list = append(list, f)
	}
	slices.SortFunc(list, compareFound)
	return list
}

func compareFound(a, b Found) int {
	if d := strings.Compare(a.Path, b.Path); d != 0 {
		return d
	}
	return strings.Compare(string(a.Kind), string(b.Kind))
}

// Since returns the findings of v that are missing in before, an earlier view of the same policy
// and project.
func (v *View) Since(before *View) []contract.Finding {
	was := make(map[Found]int64, len(before.Found))
	for _, f := range before.Found {
		was[Found{Kind: f.Kind, Path: f.Path}] = f.changed
	}
	var list []contract.Finding
	for _, f := range v.Found {
		changed, known := was[Found{Kind: f.Kind, Path: f.Path}]
		if f.Kind == KnownFolder || v.partOfNew(f, was) ||
			known && (changed == f.changed || changed == 0 || f.changed == 0) {
			continue
		}
		list = append(list, contract.Finding{Kind: string(f.Kind), Path: f.Path, Text: v.sentence(f, known)})
	}
	if v.Partial && !before.Partial {
		list = append(list, contract.Finding{Kind: "partial", Text: fmt.Sprintf(
			"There are more than %d folders now, and those beyond were not searched for repositories and protected names.",
			searched)})
	}
	return shortened(list)
}

// shortened returns at most MaxFindings findings. If there are more, it lists those of each sort that are nearest to
// the root, and the number of the others: otherwise many harmless findings could hide one of another sort.
func shortened(list []contract.Finding) []contract.Finding {
	if len(list) <= MaxFindings {
		return list
	}
	sorts := map[string][]contract.Finding{}
	for _, f := range list {
		sorts[sortOf(f)] = append(sorts[sortOf(f)], f)
	}
	names := slices.SortedFunc(maps.Keys(sorts), compareSorts)
	if most := MaxFindings / 2; len(names) > most { // a sort gets two findings at least
		const others = "findings of other sorts"
		for _, name := range names[most-1:] {
			sorts[others] = append(sorts[others], sorts[name]...)
		}
		names = append(names[:most-1], others)
	}
	var short []contract.Finding
	for _, name := range names {
		of := sorts[name]
		slices.SortStableFunc(of, func(a, b contract.Finding) int {
			return cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/"))
		})
		most := MaxFindings / len(names)
		if len(of) <= most {
			short = append(short, of...)
			continue
		}
		short = append(short, of[:most-1]...)
		text := fmt.Sprintf("There are %d more %s.", len(of)-most+1, name)
		short = append(short, contract.Finding{Kind: "partial", Text: text})
	}
	return short
}

// pathsReadBy begins the sorts of protected names.
const pathsReadBy = "paths that are read by "

// compareSorts orders the sorts: those of protected names are the last.
func compareSorts(a, b string) int {
	if name := strings.HasPrefix(a, pathsReadBy); name != strings.HasPrefix(b, pathsReadBy) {
		if name {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// sortOf names the sort of a finding. The names read by one tool are of one sort.
func sortOf(f contract.Finding) string {
	switch FoundKind(f.Kind) {
	case FoundGitlink:
		return "submodules"
	case FoundRepository:
		return "repositories"
	case FoundGitLink:
		return "links in place of a repository's files"
	case FoundHookPath:
		return "paths that configurations of git name"
	case FoundName:
		return pathsReadBy + cmp.Or(dsl.ReaderOf(f.Path), "git")
	}
	return "notes"
}

// partOfNew reports whether a path is a part of a repository that is reported as a whole.
func (v *View) partOfNew(f Found, was map[Found]int64) bool {
	holder := Found{Kind: FoundRepository, Path: filepath.Dir(f.Path)}
	_, old := was[holder]
	return f.Kind == FoundName && slices.Contains(dsl.ProtectedGit, filepath.Base(f.Path)) && !old &&
		slices.Contains(v.Found, holder)
}

func (v *View) sentence(f Found, known bool) string {
	name := v.name(f.Path)
	verb := "was made"
	if known {
		verb = "was changed"
	}
	switch f.Kind {
	case FoundGitlink:
		return fmt.Sprintf("The index of a repository names %s as a submodule now: git status enters it, and runs what "+
			"its configuration names.", name)
	case FoundRepository:
		if dsl.FoldName(filepath.Base(f.Path)) != ".git" {
			return fmt.Sprintf("The folder %s was made a repository without a .git: git there runs what its configuration "+
				"names, also where a .git beside it is broken. "+
				"`git config --global safe.bareRepository explicit` prevents it.", name)
		}
		return fmt.Sprintf("The repository %s %s: git runs what its configuration and hooks name to those who enter the "+
			"folder.", name, verb)
	case FoundGitLink:
		target, _ := os.Readlink(f.Path)
		return fmt.Sprintf("The repository's file %s is a link to %s now: git run outside the cage writes there.",
			name, termtext.Name(target))
	case FoundHookPath:
		return fmt.Sprintf("A configuration of git names %s now: git runs what is there.", name)
	}
	reader := cmp.Or(dsl.ReaderOf(f.Path), "git, in the repository that it lies in")
	return fmt.Sprintf("%s %s. It is read by %s.", name, verb, reader)
}

// Notes returns, as sentences, the facts of the view that an operator should know before an agent
// works in it.
func (v *View) Notes() (notes []string) {
	if v.Partial {
		notes = append(notes,
			fmt.Sprintf("Not searched: the deepest folders. There are more than %d, and repositories that lie there are not "+
				"protected, "+
				"unless an earlier run found them.", searched))
	}
	return notes
}
