package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/workspace/paths"
)

// View is the files and the cage of a server's callers.
type View struct {
	ProjectID, Root, SessionID string
	// Cage is the caller's cage, nil for an uncaged caller. NoCommands is true if the caller cannot run commands,
	// ProjectCaged if an agent of the project has a cage.
	Cage                     *dsl.Cage
	NoCommands, ProjectCaged bool
	// Declared are the servers that the project declares.
	Declared []dsl.LanguageServer
}

// entries returns the project's catalogue: first the languages that the project declares, with its command and the rest
// of the operator's entry, then the other entries.
func (v View) entries(list []Entry) []Entry {
	if len(v.Declared) == 0 {
		return list
	}
	var declared []Entry
	list = slices.Clone(list)
	for _, d := range v.Declared {
		e := Entry{Lang: d.Lang, Install: "see lsp.servers in the project file, which names it"}
		if i := slices.IndexFunc(list, func(e Entry) bool { return e.Lang == d.Lang }); i >= 0 {
			e = list[i]
			list = slices.Delete(list, i, i+1)
		}
		e.Commands, e.Pulls, e.Versions, e.Status, e.Markers = [][]string{d.Command}, false, false, false, nil
		e.Asks, e.Lists, e.text = false, "", ""
		if len(d.Extensions) > 0 {
			e.Extensions = map[string]string{}
			for _, ext := range d.Extensions {
				e.Extensions[ext] = d.Lang
			}
		}
		declared = append(declared, e)
	}
	return append(declared, list...)
}

// entry returns the entry of a language.
func (v View) entry(list []Entry, lang string) (Entry, bool) {
	list = v.entries(list)
	i := slices.IndexFunc(list, func(e Entry) bool { return e.Lang == lang })
	if i < 0 {
		return Entry{}, false
	}
	return list[i], true
}

// key returns a string that is equal for views and entries with a common server. The program's path is not part of it,
// because a search for the program takes a tenth of the time of a query; it is searched when a server starts.
func (o Options) key(v View, e Entry) string {
	var policy []byte
	if o.cagedAnyway(v) {
		policy, _ = json.Marshal(o.policy(v, e)) // plain values can be encoded as JSON
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%d %s%s %s", len(v.ProjectID), v.ProjectID, len(v.Root), v.Root,
		e.identity(), policy))
	return hex.EncodeToString(sum[:])
}

const (
	// serverMemory and serverPIDs are the limits of a server's cage if its entry has none.
	serverMemory = 4 << 30
	serverPIDs   = 512
)

// Caging determines whether the server of a caller without a cage has one.
type Caging string

// The choices. The server of a caller with a cage always has a cage.
const (
	// CageAuto gives the server a cage if it might run code from files of the project that a caged agent wrote, or that
	// the caller can write but not run.
	CageAuto Caging = "auto"
	// CageAlways gives each server a cage. CageNever gives a server a cage only if its caller has one.
	CageAlways Caging = "always"
	CageNever  Caging = "never"
)

// caged reports whether a server needs a cage. A server runs code that files of the project name: build scripts,
// plugins, settings. So it has a cage if its caller has one, if another agent of the project has one, because the files
// of that agent would run outside its cage, if the caller cannot run commands itself, and if the program is in the
// project.
func (o Options) caged(v View, e Entry) bool {
	switch {
	case o.cagedAnyway(v):
		return true
	case o.Caging == CageNever:
		return false
	}
	path := o.Environment(false, o.vars(e))["PATH"]
	return slices.ContainsFunc(e.Commands, func(command []string) bool { return inProject(v.Root, path, command) })
}

// cagedAnyway reports whether a server needs a cage wherever its program is.
func (o Options) cagedAnyway(v View) bool {
	return v.Cage != nil || o.Caging == CageAlways || o.Caging != CageNever && (v.ProjectCaged || v.NoCommands)
}

// inProject reports whether a command runs a file of the project: the program as found on path, or a script named by an
// argument. Links are followed.
func inProject(root, path string, command []string) bool {
	program := command[0]
	if !strings.Contains(program, "/") {
		program = lookPath(root, path, program)
	}
	if program != "" && within(root, program) {
		return true
	}
	for _, arg := range command[1:] {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		if info, err := os.Stat(inRoot(root, arg)); err != nil || info.IsDir() && !strings.Contains(arg, "/") {
			continue
		}
		if within(root, arg) {
			return true
		}
	}
	return false
}

// dir returns the folder in which a server is started that is first asked about a file: programs that select a version
// by their folder, such as rustup's, find that of the nested program. With a relative folder on PATH it is the root,
// because caged looks there.
func (o Options) dir(v View, e Entry, file string) string {
	path := o.Environment(false, o.vars(e))["PATH"]
	if slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) }) {
		return v.Root
	}
	for dir := filepath.Dir(file); dir != v.Root && paths.Below(dir, v.Root); dir = filepath.Dir(dir) {
		for _, name := range e.Markers {
			if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
				break
			}
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				return dir
			}
		}
	}
	return v.Root
}

// lookPath returns the first file with the name in the folders of path, "" if there is none.
func lookPath(root, path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(inRoot(root, cmp.Or(dir, ".")), name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// inRoot returns the path as an absolute path. A relative path is relative to the root, the working folder of servers.
func inRoot(root, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(root, path)
}

// within reports whether a file, or the target of a link, is below root.
func within(root, path string) bool {
	path = inRoot(root, path)
	if paths.Below(path, root) {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	return err == nil && paths.Below(real, root)
}

// shows reports whether a changed file may be shown to the server of an entry: it is of the language, and the view's
// cage grants it. The pool itself reads every file of the project.
func shows(v View, e Entry, path string) bool {
	return e.Extensions[strings.ToLower(filepath.Ext(path))] != "" &&
		(v.Cage == nil || v.Cage.Access(v.Root, path) != dsl.NoAccess)
}

// vars returns the variables of kaged's environment and of the entry that the entry's server gets outside a cage.
func (o Options) vars(e Entry) map[string]string {
	vars := map[string]string{}
	for _, name := range e.Env {
		if value, ok := o.LookupEnv(name); ok {
			vars[name] = value
		}
	}
	for name, value := range e.Vars {
		vars[name] = value
	}
	return vars
}

// cageOf returns the cage of a server, nil for an uncaged one.
func (o Options) cageOf(v View, e Entry) *dsl.Cage {
	if !o.caged(v, e) {
		return nil
	}
	return o.policy(v, e)
}

// policy returns the cage of a caged server. The server of a caller with a cage has that cage with all grants
// read-only, without network and capabilities, and with a permanent home folder of its own. The server of a caller
// without a cage has a cage with the project, read-only.
func (o Options) policy(v View, e Entry) *dsl.Cage {
	policy := &dsl.Cage{State: "persistent", Git: dsl.GitReadOnly, Seccomp: "default", Limits: dsl.Limits{
		Memory: cmp.Or(e.Memory, serverMemory), PIDs: serverPIDs,
	}}
	if v.Cage == nil {
		policy.FS = []dsl.Mount{{Mode: "ro", Path: "project:/"}}
	} else {
		for _, m := range v.Cage.FS {
			policy.FS = append(policy.FS, dsl.Mount{Mode: "ro", Path: m.Path})
		}
		policy.ReadOnly = v.Cage.ReadOnly
		policy.Env = v.Cage.Env
	}
	for _, path := range e.Read {
		policy.FS = append(policy.FS, dsl.Mount{Mode: "ro", Path: path})
	}
	return policy
}

// spec returns the specification to start a program of an entry for a view, in a cage unless policy is nil.
func (o Options) spec(v View, e Entry, policy *dsl.Cage, argv []string) Spec {
	vars := o.vars(e)
	if policy != nil {
		vars = maps.Clone(policy.Env)
		if vars == nil {
			vars = map[string]string{}
		}
		maps.Copy(vars, e.Vars)
	}
	return Spec{
		Owner: contract.Owner{
			Kind: contract.OwnedByProject, ProjectID: cmp.Or(v.ProjectID, "unregistered"), Agent: "code.lsp." + e.Lang,
		},
		Argv: argv, Dir: v.Root, Env: o.Environment(policy != nil, vars), Cage: policy, Root: v.Root,
	}
}
