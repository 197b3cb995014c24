package core

import "kaged.dev/pkg/contract"

// Whose selects by session, run or project; the zero value selects all.
type Whose struct{ Session, Run, Project string }

// kindOf returns the kind of an owner, with the default resolved.
func kindOf(o contract.Owner) contract.OwnerKind {
	switch {
	case o.Kind != contract.OwnedByDefault:
		return o.Kind
	case o.SessionID == "":
		return contract.OwnedByProject
	}
	return contract.OwnedBySession
}

// checkOwner fails with invalid_params for an incomplete owner.
func checkOwner(o contract.Owner, what string) error {
	switch kind := kindOf(o); {
	case o.SessionID == "" && o.ProjectID == "":
		return invalid("owner", "%s needs an owner: a session or a project.", what)
	case kind == contract.OwnedByRun && (o.SessionID == "" || o.RunID == ""):
		return invalid("owner", "%s of a run needs the run and its session.", what)
	case kind == contract.OwnedByProject && (o.ProjectID == "" || o.SessionID != ""):
		return invalid("owner", "%s of a project needs the project, and no session.", what)
	case kind == contract.OwnedBySession && o.SessionID == "":
		return invalid("owner", "%s of a session needs the session.", what)
	case kind < contract.OwnedBySession || kind > contract.OwnedByProject:
		return invalid("owner", "%s has an owner of a kind that this supervisor does not know.", what)
	}
	return nil
}

// account returns the session of an owner, or its project without one: the unit of limits and findings.
func account(o contract.Owner) string {
	if o.SessionID == "" {
		return "project " + o.ProjectID
	}
	return "session " + o.SessionID
}

// sameOwner reports whether two owners end together.
func sameOwner(a, b contract.Owner) bool {
	kind := kindOf(a)
	return kind == kindOf(b) && a.SessionID == b.SessionID &&
		(kind != contract.OwnedByRun || a.RunID == b.RunID) && (kind != contract.OwnedByProject || a.ProjectID == b.ProjectID)
}

// mayEnter reports whether a command may run in a cage: it ends no later than the cage's owner does.
func mayEnter(cage, command contract.Owner) bool {
	return sameOwner(cage, command) ||
		kindOf(cage) == contract.OwnedBySession && kindOf(command) == contract.OwnedByRun &&
			cage.SessionID == command.SessionID
}

// shows reports whether w's list contains the owner's commands: a project's list includes those of its sessions.
func (w Whose) shows(o contract.Owner) bool {
	return (w.Session == "" || o.SessionID == w.Session) && (w.Project == "" || o.ProjectID == w.Project) &&
		(w.Run == "" || o.RunID == w.Run)
}

// ends reports whether the owner's commands end with w.
func (w Whose) ends(o contract.Owner) bool {
	switch {
	case w.Session != "":
		return o.SessionID == w.Session
	case w.Run != "":
		return kindOf(o) == contract.OwnedByRun && o.RunID == w.Run
	}
	return kindOf(o) == contract.OwnedByProject && o.ProjectID == w.Project
}

// check fails with invalid_params unless w is exactly one session, run or project.
func (w Whose) check() error {
	named := 0
	for _, id := range []string{w.Session, w.Run, w.Project} {
		if id != "" {
			named++
		}
	}
	if named != 1 {
		return invalid("session_id", "Name whose commands to end: one session, one run or one project.")
	}
	return nil
}
