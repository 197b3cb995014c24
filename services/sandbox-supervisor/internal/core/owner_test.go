package core

import (
	"errors"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// The owners in the tests below: sessions, runs, and projects.
var (
	ofSession = contract.Owner{SessionID: "s", RunID: "r", ProjectID: "p"}
	ofOther   = contract.Owner{SessionID: "s2", ProjectID: "p"}
	ofRun     = contract.Owner{Kind: contract.OwnedByRun, SessionID: "s", RunID: "r", ProjectID: "p"}
	ofNextRun = contract.Owner{Kind: contract.OwnedByRun, SessionID: "s", RunID: "r2", ProjectID: "p"}
	ofProject = contract.Owner{Kind: contract.OwnedByProject, ProjectID: "p"}
	ofP2      = contract.Owner{ProjectID: "p2"} // the default kind
)

// A command enters a cage only if it ends no later than the cage's owner; projects share no cage.
func TestWhoMayEnterACage(t *testing.T) {
	t.Parallel()
	owners := map[string]contract.Owner{
		"session": ofSession, "other session": ofOther, "run": ofRun, "next run": ofNextRun, "project": ofProject,
		"other project": ofP2,
	}
	allowed := map[string]bool{"session<run": true, "session<next run": true}
	for cage, c := range owners {
		for command, o := range owners {
			if got, want := mayEnter(c, o), cage == command || allowed[cage+"<"+command]; got != want {
				t.Errorf("a command of the %s in a cage of the %s: got %v, want %v", command, cage, got, want)
			}
		}
	}
}

// The end of a session ends its runs' commands too, that of a run its own, that of a project those without a session; a
// project's list also shows its sessions' commands.
func TestWhoseThingsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		w            Whose
		owner        contract.Owner
		ends, listed bool
	}{
		{"session, its own", Whose{Session: "s"}, ofSession, true, true},
		{"session, its run's", Whose{Session: "s"}, ofRun, true, true},
		{"session, another's", Whose{Session: "s"}, ofOther, false, false},
		{"session, the project's", Whose{Session: "s"}, ofProject, false, false},
		{"run, its own", Whose{Run: "r"}, ofRun, true, true},
		{"run, the session's", Whose{Run: "r"}, ofSession, false, true},
		{"run, the next one's", Whose{Run: "r"}, ofNextRun, false, false},
		{"project, its own", Whose{Project: "p"}, ofProject, true, true},
		{"project, its session's", Whose{Project: "p"}, ofSession, false, true},
		{"project, another's", Whose{Project: "p"}, ofP2, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.w.ends(c.owner); got != c.ends {
				t.Errorf("ends: got %v, want %v", got, c.ends)
			}
			if got := c.w.shows(c.owner); got != c.listed {
				t.Errorf("listed: got %v, want %v", got, c.listed)
			}
		})
	}
	for _, w := range []Whose{{}, {Session: "s", Run: "r"}, {Run: "r", Project: "p"}} {
		if err := w.check(); !errors.Is(err, fault.InvalidParams) {
			t.Errorf("%+v: got %v, want invalid_params", w, err)
		}
	}
}

// An owner must name the session, run or project whose end is its end.
func TestOwnersAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owner contract.Owner
		ok    bool
	}{
		"session":                   {ofSession, true},
		"run":                       {ofRun, true},
		"project":                   {ofProject, true},
		"project by default":        {ofP2, true},
		"nothing":                   {contract.Owner{}, false},
		"run without its session":   {contract.Owner{Kind: contract.OwnedByRun, RunID: "r", ProjectID: "p"}, false},
		"run without an id":         {contract.Owner{Kind: contract.OwnedByRun, SessionID: "s"}, false},
		"project with a session":    {contract.Owner{Kind: contract.OwnedByProject, SessionID: "s", ProjectID: "p"}, false},
		"session without an id":     {contract.Owner{Kind: contract.OwnedBySession, ProjectID: "p"}, false},
		"a kind that is not known":  {contract.Owner{Kind: 9, SessionID: "s"}, false},
		"another kind not known":    {contract.Owner{Kind: -1, SessionID: "s"}, false},
		"project without a project": {contract.Owner{Kind: contract.OwnedByProject, SessionID: "s"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := checkOwner(c.owner, "A command"); (err == nil) != c.ok {
				t.Errorf("got %v, want ok %v", err, c.ok)
			}
		})
	}
}
