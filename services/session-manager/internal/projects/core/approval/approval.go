// Package approval finds the grants of a project's files beyond the version that an operator approved. Its functions
// are pure: they compare two compiled versions agent by agent, determine the prompts that the agents' own tools can
// write, and compute the diff of two sets of texts.
//
// The table [Rules] defines widening; the reference page docs/reference/approval.md has the same table.
package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"kaged.dev/pkg/dsl"
)

// Agent is the set of rights of one agent of a compiled project.
type Agent struct {
	// Path is its tree path.
	Path string
	// Model is the alias of its model, Prompt its prompt file, relative to the project's root.
	Model, Prompt string
	// Tools are the canonical names of its tools.
	Tools []string
	// Writes is true if one of them changes files or runs programs.
	Writes bool
	// MaxSteps and MaxOutputTokens are 0 if they are not set.
	MaxSteps, MaxOutputTokens int
	// ResumeOnCrash is true if its run is continued in a new one after a crash.
	ResumeOnCrash bool
	// AutoTodos is true if its proposed todos are stored without review.
	AutoTodos bool
	// ApproveWrites is true if each of its calls that changes files or runs programs needs an operator's approval.
	ApproveWrites bool
	// Cage may be nil.
	Cage *dsl.Cage
	// Budget may be nil.
	Budget *dsl.Budget
	// Policy may be nil.
	Policy *dsl.Policy
}

// Version is a version of a project's files.
type Version struct {
	// Root is the project's folder, absolute.
	Root string
	// Agents are all agents, the root first.
	Agents []Agent
	// LanguageServers are the servers that the project declares, by language.
	LanguageServers []dsl.LanguageServer
	// Debugging has the settings for debugging its programs.
	Debugging dsl.Debugging
	// Dormant are the values of keys that have no effect yet and will widen when they do, by agent path and key.
	Dormant map[Place]string
	// Providers are the present providers of each alias; an unbound alias has no entry.
	Providers map[string][]string
	// DefaultSteps is the default number of steps of a run.
	DefaultSteps int
}

// Place is a key of an agent; the path is empty for the project's own keys.
type Place struct{ AgentPath, Key string }

// Widening is a grant of one version that the other version lacks. From is "" for a new grant.
type Widening struct {
	Place
	From, To string
}

// Widened returns the grants of to beyond from, by agent and in the order of [Rules]. An empty list means that from
// covers to.
func Widened(from, to Version) []Widening {
	before := make(map[string]*Agent, len(from.Agents))
	for i := range from.Agents {
		before[from.Agents[i].Path] = &from.Agents[i]
	}
	var list []Widening
	for i := range to.Agents {
		p := pair{from: from, to: to, before: before[to.Agents[i].Path], after: &to.Agents[i]}
		for _, r := range Rules {
			if r.compare != nil && (p.before != nil || r.Key == agentKey) {
				list = append(list, r.compare(p)...)
			}
		}
	}
	list = append(list, languageServers(from, to)...)
	list = append(list, debugging(from, to)...)
	return append(list, dormant(from, to)...)
}

// pair is an agent in both versions; before is nil for a new agent.
type pair struct {
	from, to      Version
	before, after *Agent
}

// widened returns one widening of the pair's agent.
func (p pair) widened(key, from, to string) []Widening {
	return []Widening{{Place{p.after.Path, key}, from, to}}
}

// Writable reports whether an agent's own tools can write the prompt at a path of the project: an agent without a cage
// with a tool that changes files or runs programs, or an agent in a cage that grants write access there. The project's
// .kaged stays read-only in a cage unless a write grant names it or an entry in it.
func (v Version) Writable(prompt string) bool {
	return slices.ContainsFunc(v.Agents, func(a Agent) bool {
		if a.Cage == nil {
			return a.Writes
		}
		at := path.Join(v.Root, prompt)
		if a.Cage.Access(v.Root, at) != dsl.WriteAccess {
			return false
		}
		kaged := path.Join(v.Root, ".kaged")
		return !inside(at, kaged) || v.grants(a, func(granted string) bool {
			return inside(granted, kaged) && inside(at, granted)
		})
	})
}

// CageWrites reports whether an agent in a cage can write a project file at an absolute path, perhaps of another
// project. The .kaged at the version's root, and at the root of each writable grant, stays read-only unless a write
// grant names it or an entry in it.
func (v Version) CageWrites(file string) bool {
	kaged := path.Dir(file)
	folder := path.Dir(kaged)
	return slices.ContainsFunc(v.Agents, func(a Agent) bool {
		if a.Cage == nil || a.Cage.Access(v.Root, file) != dsl.WriteAccess {
			return false
		}
		held := folder == v.Root || v.grants(a, func(granted string) bool { return granted == folder })
		return !held || v.grants(a, func(granted string) bool { return inside(granted, kaged) && inside(file, granted) })
	})
}

// grants reports whether wanted accepts one of the paths that an agent's cage allows it to write. The paths are
// absolute.
func (v Version) grants(a Agent, wanted func(granted string) bool) bool {
	return slices.ContainsFunc(a.Cage.FS, func(m dsl.Mount) bool {
		granted := m.Path
		if rest, ok := dsl.InProject(m.Path); ok {
			granted = path.Join(v.Root, rest)
		}
		return m.Mode == "rw" && wanted(path.Clean(granted))
	})
}

func inside(at, dir string) bool {
	rest, ok := strings.CutPrefix(at, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}

// Prompts returns the prompt files in use, sorted.
func (v Version) Prompts() []string {
	used := map[string]bool{}
	for _, a := range v.Agents {
		if a.Prompt != "" {
			used[a.Prompt] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// Text is a file of a version. Absent is true for a missing file.
type Text struct {
	Path    string
	Content string
	Absent  bool
}

// Hash identifies files by the SHA-256 (hex) of their contents by path, "" for a missing file.
func Hash(files map[string]string) string {
	encoded, _ := json.Marshal(files) // strings can always be marshalled, and keys are sorted
	return SHA256(string(encoded))
}

// SHA256 returns the SHA-256 of a text in hex.
func SHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
