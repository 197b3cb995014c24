package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/workspace/paths"
)

// View is the files and the cage of a server's callers.
type View struct {
	ProjectID, Root, SessionID string
	// Cage is the caller's, nil for an uncaged caller. NoCommands says that the caller cannot run commands.
	Cage       *dsl.Cage
	NoCommands bool
	// Declared are the servers that the project declares, by language.
	Declared map[string][]string
}

// entry returns the entry of a language with the project's command in it.
func (v View) entry(list []Entry, lang string) (Entry, bool) {
	i := slices.IndexFunc(list, func(e Entry) bool { return e.Lang == lang })
	if i < 0 {
		return Entry{}, false
	}
	e := list[i]
	if command := v.Declared[lang]; len(command) > 0 {
		e.Commands = [][]string{command}
	}
	return e, true
}

// key is equal for views and entries that may share a server.
func (v View) key(e Entry, policy *dsl.Cage) string {
	text, _ := json.Marshal([]any{v.ProjectID, v.Root, e, policy}) // plain values have a JSON form
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

const (
	// serverMemory and serverPIDs bound a server's cage where its entry sets no bound.
	serverMemory = 4 << 30
	serverPIDs   = 512
)

// cageOf returns the cage of a server, nil for an uncaged one. A caller's cage becomes the server's with every grant
// read-only,
// without network
// and without capabilities, and with a home of its own that lasts. A caller without a cage has a server without one,
// unless the
// caller cannot run commands or the program lies in the project: then code that a file of the project makes the
// server run
// is done in a
// cage that sees the project, read-only.
func cageOf(v View, e Entry, command []string) *dsl.Cage {
	inProject := filepath.IsAbs(command[0]) && paths.Below(filepath.Clean(command[0]), v.Root) ||
		!filepath.IsAbs(command[0]) && filepath.Base(command[0]) != command[0]
	if v.Cage == nil && !v.NoCommands && !inProject {
		return nil
	}
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
